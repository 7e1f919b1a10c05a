/** Colours for Python, TypeScript and JSON: comments, strings, numbers and keywords. Everything else is plain. */
export type CodeLanguage = "python" | "typescript" | "json";
/** `key`: the name of a field in JSON. */
export type Token = { kind: "comment" | "string" | "number" | "keyword" | "key" | "plain"; text: string };

const KEYWORDS = new Set(
  `and as assert async await break class const continue def del elif else except export extends finally for from
  function global if import in is lambda let new not null None or pass raise return switch case throw True False true
  false try type typeof undefined var while with yield interface of`.split(/\s+/),
);
const PARTS =
  /("""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?)|(#[^\n]*|\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|(\b\d[\w.]*)|([A-Za-z_$][\w$]*)/g;
const COLON = /\s*:/y;

/** `#` begins a comment in Python only, `//` in TypeScript only. */
export function tokensOf(source: string, language: CodeLanguage): Token[] {
  const tokens: Token[] = [];
  let end = 0;
  const push = (kind: Token["kind"], text: string) => {
    const last = tokens.at(-1);
    if (last?.kind === kind) last.text += text;
    else if (text !== "") tokens.push({ kind, text });
  };
  const isKey = (at: number) => {
    COLON.lastIndex = at;
    return language === "json" && COLON.test(source);
  };
  const isComment = (text: string) => language !== "json" && text.startsWith("#") === (language === "python");
  PARTS.lastIndex = 0;
  for (let match = PARTS.exec(source); match; match = PARTS.exec(source)) {
    const [text, string, comment, number, word] = match;
    push("plain", source.slice(end, match.index));
    end = match.index + text.length;
    if (comment !== undefined && !isComment(comment)) {
      push("plain", text.slice(0, 1));
      end = match.index + 1;
      PARTS.lastIndex = end;
    } else if (string !== undefined) push(isKey(end) ? "key" : "string", text);
    else if (comment !== undefined) push("comment", text);
    else if (number !== undefined) push("number", text);
    else push(word !== undefined && KEYWORDS.has(word) ? "keyword" : "plain", text);
  }
  push("plain", source.slice(end));
  return tokens;
}
