//! Job ids: UUIDs of version 7 that grow within this process, so that they sort as jobs were submitted.

import { randomFillSync } from "node:crypto";

/** Taken in one go for 256 ids: a call for each costs more than the rest. */
const pool = Buffer.alloc(256 * 10);
let used = pool.length;
let millis = 0;
let count = 0;

export function newId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const random = pool.subarray(used, (used += 10));
  const now = Date.now();
  if (now > millis) {
    millis = now;
    // Half of the range is left to count up in.
    count = random.readUInt16BE(0) & 0x7ff;
  } else if (++count > 0xfff) {
    millis++;
    count = 0;
  }
  const time = millis.toString(16).padStart(12, "0");
  const rest = random.toString("hex", 2);
  const variant = (8 | (random[2]! >> 4 & 3)).toString(16);
  const third = (0x7000 | count).toString(16);
  return `${time.slice(0, 8)}-${time.slice(8)}-${third}-${variant}${rest.slice(1, 4)}-${rest.slice(4)}`;
}
