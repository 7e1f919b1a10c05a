import { z } from "zod";
import { takingTurns } from "../lib/turns.ts";
import { VERSION } from "../lib/version.ts";
import { clientFormatOf, GoogleError } from "./answer/client_errors.ts";
import { ErrorEnvelope } from "./answer/errors.ts";
import { isServicePath, ServiceError } from "./answer/service_errors.ts";
import type { Route } from "./route_groups.ts";

type Json = Record<string, unknown>;
type Answers = Record<number, z.ZodType | string>;
/** Media type → schema, or words where no schema can say it. */
type Accepts = Record<string, z.ZodType | string>;
type Detail = {
  summary: string;
  description?: string;
  tags?: string[];
  security?: [];
  answers: Answers;
  accepts?: Accepts;
};

/** `accepts`: the bodies of a route that reads them itself. */
type More = { description?: string; public?: true; accepts?: Accepts };

/**
 * Documents a route: `detail: describe("Create a workspace", { 201: Workspace })`. An answer is a schema (JSON) or a
 * media type. The tests compare answers with the document; production does not.
 */
export const describe = (summary: string, answers: Answers, more: More = {}) => {
  const { public: open, ...rest } = more;
  return { summary, answers, ...rest, ...(open ? { security: [] as [] } : {}) };
};

/** zod leaves out the default of a value that it converts first, such as a number in a query. */
const override: NonNullable<z.core.ToJSONSchemaParams["override"]> = ({ zodSchema, jsonSchema }) => {
  const { def } = zodSchema._zod;
  if (def.type === "default" && /^(number|integer)$/.test(String(jsonSchema.type)))
    jsonSchema.default = def.defaultValue as number;
};

/** The whole document at once, which takes longer than a turn of a server may. */
export function openapi(routes: readonly Route[], { closed = false } = {}): Json {
  const parts = partsOf(routes, closed);
  for (let part = parts.next(); ; part = parts.next()) if (part.done) return part.value;
}

/** The same for a server: other requests are answered between two routes. */
export async function openapiInTurns(routes: readonly Route[]): Promise<Json> {
  const parts = partsOf(routes, false);
  const turn = takingTurns();
  for (let part = parts.next(); ; part = parts.next()) {
    if (part.done) return part.value;
    await turn();
  }
}

/**
 * Yields after each route. Schemas with `.meta({ id })` become components, all others are inline. Answers may get new
 * fields; `closed` forbids them, so that the tests notice a field that the document does not know.
 */
function* partsOf(routes: readonly Route[], closed: boolean): Generator<undefined, Json> {
  const components: Json = {};
  const schemaOf = (schema: z.ZodType, io: "input" | "output"): Json => {
    const {
      $schema: _,
      $defs = {},
      ...json
    } = z.toJSONSchema(schema, { io, unrepresentable: "any", override }) as Json;
    const shown = (part: unknown) => rewrite(part, io === "output" && !closed);
    for (const [name, definition] of Object.entries($defs as Json)) {
      const component = shown(definition);
      if (components[name] && !Bun.deepEquals(components[name], component))
        throw new Error(`Two schemas are called ${name}: give one another id`);
      components[name] = component;
    }
    return shown(json) as Json;
  };
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    yield;
    const detail = route.hooks.detail as Detail | undefined;
    if (!detail?.answers) continue; // pages and the document itself
    const path = route.path.replaceAll(/:(\w+)/g, "{$1}").replaceAll("/*", "/{path}");
    const isService = isServicePath(path);
    const format = clientFormatOf(path);
    const isPlain = isService || format === "ollama"; // its errors have a text and a code
    const failed = format === "google" ? "GoogleError" : isPlain ? "DetectionError" : "Error";
    const ok = Object.entries(detail.answers).map(([status, answer]) => [status, answerOf(status, answer, schemaOf)]);
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = {
      operationId: operationId(route.method, path),
      summary: detail.summary,
      ...(detail.description ? { description: detail.description } : {}),
      tags: detail.tags ?? ["System"],
      ...(detail.security || isService ? { security: detail.security ?? [{ api_key: [] }] } : {}),
      parameters: [
        ...parametersOf("path", route.hooks.params, path, schemaOf),
        ...parametersOf("query", route.hooks.query, path, schemaOf),
      ],
      ...bodyOf(route.hooks.body as z.ZodType | undefined, detail.accepts, schemaOf),
      responses: {
        ...Object.fromEntries(ok),
        default: { $ref: `#/components/responses/${failed}` },
      },
    };
  }
  schemaOf(ErrorEnvelope, "output");
  schemaOf(ServiceError, "output");
  schemaOf(GoogleError, "output");
  return {
    openapi: "3.1.0",
    info: { title: "Verk", version: VERSION, license: { name: "Apache-2.0", identifier: "Apache-2.0" } },
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    paths: sorted(paths),
    components: {
      schemas: sorted(components),
      responses: {
        Error: failure("Error", "What went wrong, which field, and how to fix it"),
        DetectionError: failure("DetectionError", "What went wrong and how to fix it"),
        GoogleError: failure("GoogleError", "What went wrong and how to fix it, in the format of Google"),
      },
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "An API key (vk_…)" },
        api_key: { type: "apiKey", in: "header", name: "X-API-Key", description: "An API key (vk_…)" },
      },
    },
  };
}

const failure = (schema: string, description: string) => ({
  description,
  content: { "application/json": { schema: { $ref: `#/components/schemas/${schema}` } } },
});

function bodyOf(
  body: z.ZodType | undefined,
  accepts: Accepts | undefined,
  schemaOf: (s: z.ZodType, io: "input") => Json,
): Json {
  const bodies: Accepts = accepts ?? (body ? { "application/json": body } : {});
  if (Object.keys(bodies).length === 0) return {};
  const content = Object.entries(bodies).map(([type, schema]) => [
    type,
    { schema: typeof schema === "string" ? { type: "string", description: schema } : schemaOf(schema, "input") },
  ]);
  return { requestBody: { required: true, content: Object.fromEntries(content) } };
}

function answerOf(status: string, answer: z.ZodType | string, schemaOf: (s: z.ZodType, io: "output") => Json): Json {
  const description = { 200: "OK", 201: "Created", 202: "Accepted" }[status] ?? "OK";
  if (typeof answer === "string") return { description, content: { [answer]: {} } };
  return { description, content: { "application/json": { schema: schemaOf(answer, "output") } } };
}

function parametersOf(
  where: "path" | "query",
  schema: unknown,
  path: string,
  schemaOf: (s: z.ZodType, io: "input") => Json,
): Json[] {
  const json = schema ? schemaOf(schema as z.ZodType, "input") : { properties: {}, required: [] };
  const properties = (json["properties"] ?? {}) as Record<string, Json>;
  const names =
    where === "path" ? [...path.matchAll(/\{(\w+)\}/g)].map((m) => m[1] as string) : Object.keys(properties);
  return names.map((name) => {
    const { description, ...rest } = properties[name] ?? { type: "string" };
    const required = where === "path" || ((json["required"] ?? []) as string[]).includes(name);
    return { name, in: where, required, ...(description ? { description } : {}), schema: rest };
  });
}

/** `POST /v1/workspaces/{id}/suspend` → `post_workspaces_id_suspend`: stable as long as the path is. */
const operationId = (method: string, path: string) =>
  [method.toLowerCase(), ...path.replace(/^\/v1/, "").match(/\w+/g)!].join("_");

const sorted = (object: Json) => Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1)));

/** Points references at the components; `open` drops the ban on further fields. */
function rewrite(json: unknown, open: boolean): unknown {
  if (Array.isArray(json)) return json.map((item) => rewrite(item, open));
  if (typeof json !== "object" || json === null) return json;
  return Object.fromEntries(
    Object.entries(json)
      .filter(([key, value]) => !(open && key === "additionalProperties" && value === false))
      .map(([key, value]) => [
        key,
        key === "$ref" && typeof value === "string"
          ? value.replace("#/$defs/", "#/components/schemas/")
          : rewrite(value, open),
      ]),
  );
}
