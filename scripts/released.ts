/**
 * The list of released migrations. Each line has a name and a hash over this migration and all lines before it. So
 * neither an edited migration nor one with a lower number than its elders can join the list, also after a merge.
 */
import { createHash } from "node:crypto";

type Named = { readonly name: string; readonly sql: string };

/** Appends the new migrations to the list. Throws a sentence with the fix if the files do not continue the list. */
export function extendReleased(list: string, migrations: readonly Named[]): string {
  const released = list.split("\n").filter((line) => line !== "");
  const names = released.map((line) => line.split(" ")[0] as string);
  const number = (name: string) => Number(name.slice(0, 4));
  let hash = "";
  const lines = migrations.map(({ name, sql }, i) => {
    const before = migrations[i - 1];
    if (!/^\d{4}_[a-z0-9_]+$/.test(name)) throw new Error(`${name}.sql: expected a name such as 0080_reports`);
    if (before && number(before.name) === number(name))
      throw new Error(`${name}.sql has the number of ${before.name}.sql: take another`);
    hash = createHash("sha256").update(`${hash}\n${name}\n${sql}`).digest("hex").slice(0, 16);
    const line = `${name} ${hash}`;
    if (i >= released.length || released[i] === line) return line;
    if (!names.includes(name))
      throw new Error(
        `${name}.sql is below ${names.at(-1)}, which is released: give it the number ${number(names.at(-1) as string) + 1} or higher`,
      );
    if (names[i] !== name) throw new Error(`${names[i]}.sql is released and must stay`);
    throw new Error(
      `${name}.sql is not as it was released, or an earlier one came after it: undo that, and add a new migration`,
    );
  });
  if (released.length > lines.length) throw new Error(`${names[lines.length]}.sql is released and must stay`);
  return `${lines.join("\n")}\n`;
}
