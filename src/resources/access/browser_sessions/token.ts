/** 256 random bits: a plain hash is enough to store it, because the token cannot be guessed. */
export const mintToken = (): string => Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");

export const hashOf = (token: string): string => Bun.SHA256.hash(token, "hex");

/** The page sends it with every write. It follows from the token, which the page itself cannot read. */
export const csrfOf = (token: string): string =>
  new Bun.CryptoHasher("sha256", token).update("csrf").digest("base64url");
