/** The first words of a request or an answer in one line, to tell requests apart in a list. Pure. */

const LONGEST = 160; // characters
const READ = 2_000; // characters of a text: it may begin with blanks

/** `content`: a text, texts or chat messages. Of messages it is the last with words of the user, or else the last. */
export function firstWords(content: unknown): string | null {
  const texts = (Array.isArray(content) ? content : [content]).map(partOf);
  const said = texts.filter(({ text }) => text !== "");
  const chosen = said.findLast(({ role }) => role === "user") ?? (said[0]?.role === null ? said[0] : said.at(-1));
  return chosen ? cut(chosen.text) : null;
}

/** `role` null: no message. */
type Part = { role: unknown; text: string };

function partOf(value: unknown): Part {
  if (typeof value === "string") return { role: null, text: lineOf(value) };
  if (typeof value !== "object" || value === null) return { role: null, text: "" };
  const { role = null, content, text, tool_calls: calls } = value as Readonly<Record<string, unknown>>;
  const said = textOf(content ?? text);
  return { role, text: said === "" && Array.isArray(calls) ? calls.map(callOf).join(", ") : said };
}

const textOf = (content: unknown): string => {
  if (typeof content === "string") return lineOf(content);
  if (!Array.isArray(content)) return "";
  const parts = content.map((part: unknown) =>
    typeof part === "object" && part !== null && "text" in part && typeof part.text === "string"
      ? lineOf(part.text)
      : "",
  );
  return parts.filter((part) => part !== "").join(" ");
};

function callOf(call: unknown): string {
  const { name } = (call as { function?: { name?: unknown } } | null)?.function ?? {};
  return typeof name === "string" ? `calls ${lineOf(name)}` : "calls a tool";
}

const lineOf = (text: string) => text.slice(0, READ).replaceAll(/\s+/g, " ").trim();

/** Never between the two halves of a character. */
const cut = (text: string): string =>
  text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1).replace(/[\ud800-\udbff]$/, "")}…`;
