//! Where a worker says what happens to itself. What tasks say goes to their jobs' logs.

export interface Logger {
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
}

/** Warnings and errors on stderr. */
export const standard: Logger = {
  info() {},
  warn: (text) => console.warn(`turnwise: ${text}`),
  error: (text) => console.error(`turnwise: ${text}`),
};
