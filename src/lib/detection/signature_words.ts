export type SignatureFacts = {
  valid: boolean | null;
  trusted: boolean | null;
  signer: string | null;
  problem: string | null;
};

/** One phrase about the signature of content credentials. Whether it is intact and whether it is trusted stay apart. */
export function signatureWords({ valid, trusted, signer, problem }: SignatureFacts): string {
  const by = signer === null ? "" : ` by ${signer}`;
  const reason = problem === null ? "" : ` (${problem})`;
  if (valid === null) return `signed, not verified${reason}`;
  if (!valid) return `signature not valid${reason}`;
  if (trusted === null) return `signed${by}, no trust list`;
  return trusted ? `signed${by}, trusted` : `signed${by}, not trusted${reason}`;
}
