/** Bodies and commands that a reader can copy. */
import { follow, isNull, type Operation, optionsOf, type Parameter, type Schema } from "./contract.ts";

const SAMPLES: Readonly<Record<string, string>> = {
  "date-time": "2030-01-01T00:00:00.000Z",
  date: "2030-01-01",
  email: "you@example.com",
};
const DEEPEST = 4;

/** A value that fits a schema: its example, its default, or the least that has all required fields. */
export function sample(schema: Schema | undefined, name = "", depth = 0): unknown {
  const at = follow(schema);
  if (at.examples?.length) return at.examples[0];
  if ("const" in at) return at.const;
  if (at.enum) return at.enum[0];
  if (at.default !== undefined && at.default !== null) return at.default;
  const some = optionsOf(at)?.find((option) => !isNull(option));
  if (some) return sample(some, name, depth);
  if (at.properties) return depth > DEEPEST ? {} : sampleObject(at.properties, at.required, depth);
  const type = [at.type].flat().find((each) => each !== "null");
  if (type === "array") return depth > DEEPEST ? [] : [sample(at.items, name, depth + 1)];
  if (type === "object") return {};
  if (type === "boolean") return true;
  if (type === "integer" || type === "number") return Math.max(1, at.minimum ?? 1);
  return SAMPLES[at.format ?? ""] ?? (name === "name" ? "example" : name === "" ? "string" : `<${name}>`);
}

function sampleObject(properties: Readonly<Record<string, Schema>>, required: readonly string[] = [], depth: number) {
  const names = required.length > 0 ? required : Object.keys(properties);
  return Object.fromEntries(names.map((name) => [name, sample(properties[name], name, depth + 1)]));
}

const SINGULAR: Readonly<Record<string, string>> = {
  deliveries: "delivery",
  detect: "detection",
  training_jobs: "job",
};

const singular = (folder: string) => (SINGULAR[folder] ?? folder.replace(/s$/, "")).replaceAll("-", "_");

/** The shell variable of a value in a path: `$DATASET_ID` for `/v1/datasets/{id}`. Equal resources have equal names. */
export function variableOf(path: string, name: string): string {
  const resource = singular(path.split(`/{${name}}`)[0]?.split("/").at(-1) ?? "");
  if (name === "id" || name === "jobId" || name === resource) return `$${resource.toUpperCase()}_ID`;
  const isCommon = name === "name" || name === "path"; // a shell has a PATH of its own
  return isCommon ? `$${resource.toUpperCase()}_${name.toUpperCase()}` : `$${name.toUpperCase()}`;
}

/** The variable for the id of what a route creates: `$DATASET_ID` for `POST /v1/datasets`. */
export const createdBy = ({ method, path }: Operation): string | undefined =>
  method === "post" && !path.endsWith("}") ? `$${singular(path.split("/").at(-1) ?? "").toUpperCase()}_ID` : undefined;

/** Values by name of the parameter. An empty one is not sent, or stays a variable if it is part of the path. */
export type Values = Readonly<Record<string, string>>;

export const valuesOf = (parameters: readonly Parameter[]): Values =>
  Object.fromEntries(parameters.map(({ name, example }) => [name, example ?? ""]));

export const bodyOf = ({ body }: Operation): string | undefined => body && pretty(body.example ?? sample(body.schema));

const LINE = 52;

/** JSON as a person writes it: what fits on a line stays on one. `before`: characters that the line has already. */
export function pretty(value: unknown, indent = "", before = 0): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const isList = Array.isArray(value);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  const parts = (inner: string) =>
    isList
      ? value.map((each) => pretty(each, inner))
      : Object.entries(value).map(([name, each]) => `"${name}": ${pretty(each, inner, name.length + 4)}`);
  const line = open + parts("").join(", ") + close;
  if (indent.length + before + line.length <= LINE && !line.includes("\n")) return line;
  const inner = `${indent}  `;
  return `${open}\n${inner}${parts(inner).join(`,\n${inner}`)}\n${indent}${close}`;
}

/** The path with its values and its query. `variables` stands for values that are missing. */
export function targetOf({ path, parameters }: Operation, values: Values, variables = false): string {
  let target = path;
  const query = new URLSearchParams();
  for (const { name, in: where } of parameters) {
    const value = values[name] ?? "";
    if (where === "path")
      target = target.replace(
        `{${name}}`,
        value === "" && variables ? variableOf(path, name) : encodeURIComponent(value),
      );
    else if (where === "query" && value !== "") query.set(name, value);
  }
  return target + (query.size > 0 ? `?${query}` : "");
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
/** Variables work inside double quotes only. An encoded address has nothing else that a shell would change there. */
const quotedAddress = (text: string) => (text.includes("$") ? `"${text}"` : quoted(text));

/** Single quotes, with a shell's variables outside of them. */
const quotedBody = (body: string) => quoted(body.replaceAll("\n", "\n  ")).replaceAll(/"(\$[A-Z_]+)"/g, `"'$1'"`);

const HEADERS = { authorization: "Authorization: Bearer ", "x-api-key": "X-API-Key: " } as const;

/** The command for a request, and for a route that also takes a file the command that uploads one. */
export function curlOf(operation: Operation, origin: string, values: Values, body: string | undefined): string {
  const { method, auth, upload } = operation;
  const isRead = method === "get";
  const address = quotedAddress(origin + targetOf(operation, values, true));
  const verb = isRead ? "" : ` -X ${method.toUpperCase()}`;
  const start = [`curl${verb} ${address}`, ...(auth === null ? [] : [`-H "${HEADERS[auth]}$VERK_API_KEY"`])];
  const json = body === undefined ? [] : ['-H "Content-Type: application/json"', `-d ${quotedBody(body)}`];
  const commands = [join([...start, ...json])];
  const fields = Object.entries((upload?.example ?? {}) as Record<string, string>);
  if (fields.length > 0) {
    const file = fields.map(([, value]) => value).find((value) => value.startsWith("@")) ?? "";
    const lines = upload?.["x-file"];
    commands.push("\n# or a file of rows");
    if (lines !== undefined) commands.push(`echo ${quoted(lines)} > ${file.slice(1)}`);
    commands.push(join([...start, ...fields.map(([name, value]) => `-F ${name}=${value}`)]));
  }
  return commands.join("\n");
}

const VARIABLE = /\$([A-Z][A-Z_]+)|os\.environ\["([A-Z_]+)"\]|process\.env\.([A-Z_]+)/g;

/** Variables that a reader sets before the code works, as a shell names them. */
export const missingIn = (code: string): string[] => {
  const names = [...code.matchAll(VARIABLE)].map(([, shell, python, javascript]) => shell ?? python ?? javascript);
  return [...new Set(names.filter((name) => name !== "VERK_API_KEY").map((name) => `$${name}`))];
};

const join = (words: readonly string[]) => words.join(" \\\n  ");
