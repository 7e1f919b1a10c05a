/** Looks for secrets in everything that a server has written. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** In the ways a text may have been written down. */
const formsOf = (secret: string) => [
  secret,
  encodeURIComponent(secret),
  JSON.stringify(secret).slice(1, -1),
  Buffer.from(secret).toString("base64").replace(/=+$/, ""),
  Buffer.from(secret).toString("hex"),
];

function filesBelow(dir: string): string[] {
  return (readdirSync(dir, { recursive: true }) as string[])
    .map((name) => join(dir, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile() && statSync(path).size < 64 << 20);
}

/** Names of the files below `dirs`, and of the `texts`, that contain a secret. */
export function whereFound(secrets: readonly string[], dirs: readonly string[], texts: Record<string, string>) {
  const outputs = [
    ...Object.entries(texts),
    ...dirs.flatMap(filesBelow).map((path): [string, string] => [path, readFileSync(path, "latin1")]),
  ];
  const forms = secrets.flatMap(formsOf).map((form) => Buffer.from(form).toString("latin1"));
  return outputs.filter(([, text]) => forms.some((form) => text.includes(form))).map(([name]) => name);
}
