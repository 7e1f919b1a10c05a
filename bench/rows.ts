const WORDS =
  "the of and to in is you that it he was for on are as with his they at be this have from or one had by word but not".split(
    " ",
  );

/** A row of about 250 bytes, another for each number. */
export function rowText(n: number): string {
  let text = "";
  let seed = n;
  while (text.length < 190) {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    text += `${WORDS[seed % WORDS.length]} `;
  }
  return `{"prompt":"${n}: ${text.trimEnd()}","answer":${n * 7},"source":"bench"}\n`;
}

const encoder = new TextEncoder();

export function rowsOf(first: number, count: number): Uint8Array<ArrayBuffer> {
  let text = "";
  for (let n = first; n < first + count; n++) text += rowText(n);
  return encoder.encode(text);
}
