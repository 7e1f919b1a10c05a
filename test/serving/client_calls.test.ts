import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../meta/imports.ts";

/** A call, and the test that makes it. Without a test the call is refused in words. */
type Row = { client: string; call: string; file?: string; title?: string };

const CLIENT = /^## (.+): (\d+)$/;
const TEST = /^(\S+) \| (.+)$/;

/** The rows of `client_calls.txt`, and the number of calls that the review gave for each client. */
function readTable() {
  const rows: Row[] = [];
  const sizes = new Map<string, number>();
  let client = "";
  let made: { file?: string; title?: string } = {};
  for (const line of readFileSync(join(import.meta.dir, "client_calls.txt"), "utf8").split("\n")) {
    const [, name, size] = CLIENT.exec(line) ?? [];
    const [, file, title] = TEST.exec(line) ?? [];
    if (name !== undefined) {
      client = name;
      sizes.set(client, Number(size));
    } else if (file !== undefined && title !== undefined) made = { file, title };
    else if (line === "refused in words") made = {};
    else if (line.startsWith("  ")) rows.push({ client, call: line.trim(), ...made });
  }
  return { rows, sizes };
}
const { rows, sizes } = readTable();

const texts = new Map<string, string>();
const textOf = (file: string) => {
  texts.set(file, texts.get(file) ?? readFileSync(join(ROOT, file), "utf8"));
  return texts.get(file) ?? "";
};
const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
const hasTest = (file: string, title: string) => new RegExp(`[[(]\\s*["\`][^"\`]*${escaped(title)}`).test(textOf(file));
/** A method is called. The name of a coding agent or of a page stands in the text. */
const hasCall = (file: string, call: string) => {
  const [method = ""] = call.split(":");
  return [`${method}(`, `"${method}"`, `${method} with `, `${method}.ts`].some((text) => textOf(file).includes(text));
};

test("every test that makes a call of a client exists, and its file has the call", () => {
  const missing = rows.filter(({ file, title = "", call }) => file && !(hasTest(file, title) && hasCall(file, call)));
  expect(missing).toEqual([]);
});

test("no call is there twice, and each client has as many as the review made", () => {
  const counts = new Map([...sizes.keys()].map((client) => [client, new Set<string>()]));
  for (const { client, ...made } of rows) counts.get(client)?.add(Object.values(made).join(" "));
  expect([...counts].map(([client, calls]) => [client, calls.size])).toEqual([...sizes]);
  expect(rows).toHaveLength([...sizes.values()].reduce((sum, size) => sum + size, 0));
});

test("320 of 330 calls do what the client expects, and the page of clients names the other 10", () => {
  const refused = rows.filter(({ file }) => file === undefined);
  expect([rows.length, rows.length - refused.length]).toEqual([330, 320]);
  const page = textOf("docs/clients.md");
  expect(refused.filter(({ call }) => !page.includes(`\`${call}\``))).toEqual([]);
});
