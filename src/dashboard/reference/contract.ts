/** The OpenAPI document of the server, and the questions that the page has about its schemas. */

export type Schema = {
  $ref?: string;
  type?: string | string[];
  description?: string;
  properties?: Readonly<Record<string, Schema>>;
  additionalProperties?: Schema | boolean;
  required?: readonly string[];
  items?: Schema;
  anyOf?: readonly Schema[];
  oneOf?: readonly Schema[];
  enum?: readonly unknown[];
  const?: unknown;
  default?: unknown;
  examples?: readonly unknown[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
};

export type Parameter = {
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  description?: string;
  schema: Schema;
  example?: string;
};

/** `x-file`: the lines of the file that an upload sends. */
type Media = { schema?: Schema; example?: unknown; "x-file"?: string };
type Answer = { $ref?: string; content?: Readonly<Record<string, Media>> };

type OperationObject = {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: readonly string[];
  security?: readonly Readonly<Record<string, unknown>>[];
  parameters?: readonly Parameter[];
  requestBody?: { content: Readonly<Record<string, Media>> };
  responses?: Readonly<Record<string, Answer>>;
};

export type Contract = {
  info: { version: string };
  security?: readonly unknown[];
  paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
  components?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
};

/** One route, as the page shows it. `auth`: the header that carries the key, or null for a route without one. */
export type Operation = {
  id: string;
  method: string;
  path: string;
  tag: string;
  summary: string;
  description: string | undefined;
  auth: "authorization" | "x-api-key" | null;
  parameters: readonly Parameter[];
  body: Media | undefined;
  upload: Media | undefined;
  answers: readonly ShownAnswer[];
};
export type ShownAnswer = { codes: string[]; media: string | undefined; schema: Schema | undefined };

let contract: Contract = { info: { version: "" }, paths: {} };
export const openContract = (document: Contract) => {
  contract = document;
};

/** The target of a reference. A description beside the reference wins. */
export function follow(schema: Schema | undefined): Schema {
  let at = schema ?? {};
  for (let i = 0; at.$ref !== undefined && i < 20; i++) {
    const { description } = at;
    at = { ...(targetOf(at.$ref) as Schema), ...(description === undefined ? {} : { description }) };
  }
  return at;
}

const targetOf = (ref: string): unknown =>
  ref
    .slice(2)
    .split("/")
    .reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], contract);

export const nameOf = (schema: Schema | undefined) => schema?.$ref?.split("/").at(-1);
export const optionsOf = (schema: Schema) => schema.anyOf ?? schema.oneOf;
export const isNull = (schema: Schema) => schema.type === "null";

/** The schema that has the fields: past `| null` and lists. */
export function core(schema: Schema | undefined): Schema {
  const at = follow(schema);
  const some = optionsOf(at)?.filter((option) => !isNull(option));
  if (some?.length === 1) return core(some[0]);
  return at.type === "array" ? core(at.items) : at;
}

/** "array of string", "Dataset | null". */
export function kindOf(schema: Schema | undefined): string {
  const at = follow(schema);
  const many = optionsOf(at);
  if (many) return [...new Set(many.map(kindOf))].join(" | ");
  if ("const" in at) return JSON.stringify(at.const);
  if (at.type === "array") return `array of ${kindOf(at.items)}`;
  if (at.properties) return nameOf(schema) ?? "object";
  if (at.additionalProperties && at.type === "object")
    return `map of ${at.additionalProperties === true ? "any" : kindOf(at.additionalProperties)}`;
  const type = Array.isArray(at.type) ? at.type.join(" | ") : (at.type ?? "any");
  return at.format === undefined ? type : `${type} (${at.format})`;
}

const METHODS = ["post", "get", "put", "patch", "delete"]; // in the order of the index

/** Every route in the order of the document. */
export const operationsOf = ({ paths, security = [] }: Contract): Operation[] =>
  Object.entries(paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation
        ? [operationOf(path, method, operation, operation.security ?? (security as OperationObject["security"]))]
        : [];
    }),
  );

function operationOf(
  path: string,
  method: string,
  object: OperationObject,
  security: OperationObject["security"] = [],
): Operation {
  const content = object.requestBody?.content;
  const isService = security.some((each) => "api_key" in each);
  return {
    id: object.operationId,
    method,
    path,
    tag: object.tags?.[0] ?? "Other",
    summary: object.summary ?? object.operationId,
    description: object.description,
    auth: security.length === 0 ? null : isService ? "x-api-key" : "authorization",
    parameters: object.parameters ?? [],
    body: content?.["application/json"],
    upload: content?.["multipart/form-data"],
    answers: answersOf(object),
  };
}

/** Successes, one entry for each shape. The answer to a creation comes first. Errors have one shape on every route. */
function answersOf({ responses = {} }: OperationObject): ShownAnswer[] {
  const shapes = new Map<string, ShownAnswer>();
  for (const [code, answer] of Object.entries(responses)) {
    if (code === "default") continue;
    const { content = {} } = answer.$ref === undefined ? answer : (targetOf(answer.$ref) as Answer);
    const [media, mediaObject] = Object.entries(content)[0] ?? [];
    const key = JSON.stringify([media, mediaObject]);
    const shape = shapes.get(key) ?? { codes: [], media, schema: mediaObject?.schema };
    shape.codes.push(code);
    shapes.set(key, shape);
  }
  return [...shapes.values()].sort((a, b) => Number(b.codes.includes("201")) - Number(a.codes.includes("201")));
}
