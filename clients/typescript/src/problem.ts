//! What can go wrong between this process and a server.

/** Everything that this package throws by itself. */
export class TurnwiseError extends Error {
  override name = "TurnwiseError";
}

/** No server answered: what was asked for may or may not have been done. */
export class Unreachable extends TurnwiseError {
  override name = "Unreachable";
}

/** A value of a request that is wrong. */
export interface WrongValue {
  /** A JSON pointer into the body such as `/priority`, or the name of a parameter. */
  path: string;
  message: string;
}

/** A server refused, and says why (RFC 9457). */
export class Problem extends TurnwiseError {
  override name = "Problem";
  /** `urn:turnwise:` and a word, by which programs distinguish problems. */
  readonly type: string;
  readonly title: string;
  readonly status: number;
  /** For a person: what is wrong, and what to do. */
  readonly detail: string;
  readonly errors: WrongValue[];
  /** The job that is in the way. */
  readonly job: string | null;
  /** How long the server wants the caller to wait, in milliseconds. */
  readonly retryAfter: number | null;

  constructor(status: number, body: Record<string, unknown>, retryAfter: number | null) {
    const text = (name: string, otherwise: string) => (typeof body[name] === "string" ? body[name] : otherwise);
    const title = text("title", `the server answered ${status}`);
    const detail = text("detail", title);
    super(detail);
    this.type = text("type", "about:blank");
    this.title = title;
    this.status = status;
    this.detail = detail;
    this.errors = Array.isArray(body.errors) ? body.errors : [];
    this.job = typeof body.job === "string" ? body.job : null;
    this.retryAfter = retryAfter;
  }
}

/** 400, 413, 415, 422: the request is wrong, and will be wrong the next time. */
export class Invalid extends Problem {
  override name = "Invalid";
}

/** 401: a token is needed, or this one is not valid any more. */
export class Unauthorized extends Problem {
  override name = "Unauthorized";
}

/** 403: this token may not do it. */
export class Forbidden extends Problem {
  override name = "Forbidden";
}

/** 404: there is no such thing, or the token may not see it. */
export class NotFound extends Problem {
  override name = "NotFound";
}

/** 409: the state of things does not allow it. */
export class Conflict extends Problem {
  override name = "Conflict";
}

/** 429 and 503, and other errors of servers and proxies: try again later. */
export class Busy extends Problem {
  override name = "Busy";
}

/** The problem as the class that goes with its status. */
export function problemOf(status: number, body: Record<string, unknown>, retryAfter: number | null): Problem {
  switch (status) {
    case 401:
      return new Unauthorized(status, body, retryAfter);
    case 403:
      return new Forbidden(status, body, retryAfter);
    case 404:
      return new NotFound(status, body, retryAfter);
    case 409:
      return new Conflict(status, body, retryAfter);
    case 408:
    case 429:
      return new Busy(status, body, retryAfter);
    default:
      return status >= 500 ? new Busy(status, body, retryAfter) : new Invalid(status, body, retryAfter);
  }
}

/** Whether the same request may be answered otherwise in a while. */
export function passes(error: unknown): boolean {
  return error instanceof Unreachable || error instanceof Busy;
}
