/** Codes for a person who has lost the phone. Each works once. */
const COUNT = 10;
const LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"; // 32, without those that look alike

/** 16 letters of 32, so 80 random bits: a plain hash is enough to store the code. */
const newCode = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => LETTERS[byte % 32])
    .join("")
    .replaceAll(/.{4}(?=.)/g, "$&-");

export const newRecoveryCodes = (): string[] => Array.from({ length: COUNT }, newCode);

/** People type the code with or without hyphens, in any case. */
export const hashOfCode = (code: string): string =>
  Bun.SHA256.hash(code.toLowerCase().replaceAll(/[^a-z0-9]/g, ""), "hex");
