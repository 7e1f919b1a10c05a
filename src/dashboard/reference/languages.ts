/** The request of an example in Python and JavaScript. Both need nothing that does not come with the language. */
import { signal } from "@preact/signals";
import type { Operation } from "./contract.ts";
import { curlOf, targetOf, type Values } from "./example.ts";

export const LANGUAGES = { curl: "curl", python: "Python", js: "JavaScript" } as const;
export type Language = keyof typeof LANGUAGES;

/** The language of all examples, until the page is left. */
export const language = signal<Language>("curl");

/** The code with the key in place of its variable, to copy. It is not shown, because others may see the screen. */
export const withKey = (code: string, key: string): string =>
  key === ""
    ? code
    : code
        .replaceAll(/"Bearer " \+ os\.environ\["VERK_API_KEY"\]/g, JSON.stringify(`Bearer ${key}`))
        .replaceAll('os.environ["VERK_API_KEY"]', JSON.stringify(key))
        .replaceAll(/\$\{process\.env\.VERK_API_KEY\}/g, key)
        .replaceAll("process.env.VERK_API_KEY", JSON.stringify(key))
        .replaceAll("$VERK_API_KEY", key);

type Request = { origin: string; values: Values; body: string | undefined };

export const codeOf = (language: Language, operation: Operation, { origin, values, body }: Request): string =>
  language === "curl"
    ? curlOf(operation, origin, values, body)
    : (language === "python" ? python : javascript)(operation, origin + targetOf(operation, values, true), body);

/** True if the code has a form with a file, which the standard library of Python cannot send. */
export const needsCurl = (language: Language, { body, upload }: Operation): boolean =>
  language === "python" && body === undefined && upload?.example !== undefined;

const VARIABLE = /\$([A-Z][A-Z_]+)/g;

function python(operation: Operation, address: string, body: string | undefined): string {
  const { method } = operation;
  const lines = [`    ${pythonText(address)},`];
  if (method !== "get") lines.push(`    method="${method.toUpperCase()}",`);
  const headers = headersOf(operation, body).map(([name, start, isKey]) => {
    if (!isKey) return `"${name}": "${start}"`;
    return `"${name}": ${start === "" ? "" : `"${start}" + `}os.environ["VERK_API_KEY"]`;
  });
  if (headers.length > 0) lines.push(`    headers={${headers.join(", ")}},`);
  if (body !== undefined) lines.push(`    data=json.dumps(${indented(pythonValue(body), "    ")}).encode(),`);
  const modules = ["json", ...(lines.some((line) => line.includes("os.environ")) ? ["os"] : []), "urllib.request"];
  return [
    `import ${modules.join(", ")}`,
    "",
    "request = urllib.request.Request(",
    ...lines,
    ")",
    "with urllib.request.urlopen(request) as response:",
    ...PYTHON_READS[answerKind(operation)],
  ].join("\n");
}

function javascript(operation: Operation, address: string, body: string | undefined): string {
  const { method, upload } = operation;
  const options: string[] = [];
  if (method !== "get") options.push(`  method: "${method.toUpperCase()}",`);
  const headers = headersOf(operation, body).map(([name, start, isKey]) => {
    const key = name.includes("-") ? `"${name}"` : name;
    if (!isKey) return `${key}: "${start}"`;
    return `${key}: ${start === "" ? "process.env.VERK_API_KEY" : `\`${start}\${process.env.VERK_API_KEY}\``}`;
  });
  if (headers.length > 0) options.push(`  headers: { ${headers.join(", ")} },`);
  const before: string[] = [];
  if (body !== undefined) options.push(`  body: JSON.stringify(${indented(javascriptValue(body), "  ")}),`);
  else if (upload?.example) {
    before.push(...formOf(upload.example as Record<string, string>));
    options.push("  body: form,");
  }
  const start =
    options.length === 0
      ? [`const response = await fetch(${javascriptText(address)});`]
      : [`const response = await fetch(${javascriptText(address)}, {`, ...options, "});"];
  return [...before, ...start, ...JAVASCRIPT_READS[answerKind(operation)]].join("\n");
}

const formOf = (fields: Readonly<Record<string, string>>) => [
  'import { openAsBlob } from "node:fs";',
  "",
  "const form = new FormData();",
  ...Object.entries(fields).map(([name, value]) =>
    value.startsWith("@")
      ? `form.append("${name}", await openAsBlob("${value.slice(1)}"), "${value.slice(1)}");`
      : `form.append("${name}", ${JSON.stringify(value)});`,
  ),
];

type Kind = "json" | "lines" | "bytes";
const PYTHON_READS: Readonly<Record<Kind, readonly string[]>> = {
  json: ["    print(json.load(response))"],
  lines: ["    for line in response:", '        print(line.decode(), end="")'],
  bytes: ['    with open("answer", "wb") as file:', "        file.write(response.read())"],
};
const JAVASCRIPT_READS: Readonly<Record<Kind, readonly string[]>> = {
  json: ["console.log(await response.json());"],
  lines: [
    "for await (const part of response.body.pipeThrough(new TextDecoderStream()))",
    "  process.stdout.write(part);",
  ],
  bytes: ["const bytes = new Uint8Array(await response.arrayBuffer());"],
};

function answerKind({ answers }: Operation): Kind {
  const media = answers[0]?.media ?? "application/json";
  if (/json$/.test(media)) return "json";
  return media.startsWith("text/") || /jsonl|ndjson/.test(media) ? "lines" : "bytes";
}

/** Name of a header, its value before the key, and whether the key follows. */
function headersOf({ auth }: Operation, body: string | undefined): (readonly [string, string, boolean])[] {
  return [
    ...(auth === "authorization" ? [["Authorization", "Bearer ", true] as const] : []),
    ...(auth === "x-api-key" ? [["X-API-Key", "", true] as const] : []),
    ...(body === undefined ? [] : [["Content-Type", "application/json", false] as const]),
  ];
}

const indented = (text: string, by: string) => text.replaceAll("\n", `\n${by}`);

/** A text of the body that is a variable alone becomes the variable. */
const withVariables = (json: string, variable: (name: string) => string) =>
  json.replaceAll(/"\$([A-Z][A-Z_]+)"/g, (_, name: string) => variable(name));

const WORDS = { true: "True", false: "False", null: "None" } as const;

/** JSON as Python writes it. Words inside of texts stay as they are. */
const pythonValue = (json: string) =>
  withVariables(json, (name) => `os.environ["${name}"]`).replaceAll(
    /"(?:[^"\\]|\\.)*"|\b(true|false|null)\b/g,
    (whole, word?: keyof typeof WORDS) => (word === undefined ? whole : WORDS[word]),
  );
const javascriptValue = (json: string) => withVariables(json, (name) => `process.env.${name}`);

const pythonText = (address: string) =>
  address.includes("$")
    ? JSON.stringify(address)
        .replaceAll(VARIABLE, (_, name: string) => `" + os.environ["${name}"] + "`)
        .replace(/ \+ ""$/, "")
    : JSON.stringify(address);
const javascriptText = (address: string) =>
  address.includes("$")
    ? `\`${address.replaceAll(VARIABLE, (_, name: string) => `\${process.env.${name}}`)}\``
    : JSON.stringify(address);
