import { Ajv2020, type ValidateFunction } from "ajv/dist/2020";
import addFormats from "ajv-formats";
import { clientFormatOf } from "../src/http/answer/client_errors.ts";
import { isServicePath } from "../src/http/answer/service_errors.ts";
import { openapi } from "../src/http/openapi.ts";
import type { Route } from "../src/http/route_groups.ts";

type Validator = () => ValidateFunction;
type Operation = { path: string; method: string; parts: string[]; answers: Map<string, Validator> };
type Document = {
  paths: Record<
    string,
    Record<string, { responses: Record<string, { $ref?: string; content?: Record<string, { schema?: object }> }> }>
  >;
  components: { schemas: Record<string, object> };
};
type Contract = { operations: Operation[]; envelope: Validator; serviceError: Validator; googleError: Validator };

let contract: Contract | undefined;

/** Compiling the schemas of all operations takes seconds, and a test process asks for few. So each compiles on first use. */
function read(routes: readonly Route[]): Contract {
  const document = openapi(routes, { closed: true }) as Document;
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema({ $id: "api", components: document.components });
  const validator = (schema: object): Validator => {
    let compiled: ValidateFunction | undefined;
    return () => {
      compiled ??= ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"api#/')));
      return compiled;
    };
  };
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { responses }]) => ({
      path,
      method,
      parts: path.split("/"),
      answers: new Map(
        Object.entries(responses).flatMap(([status, response]): [string, Validator][] => {
          const schema = response.content?.["application/json"]?.schema;
          return schema ? [[status, validator(schema)]] : [];
        }),
      ),
    })),
  );
  const named = (name: string) => validator({ $ref: `#/components/schemas/${name}` });
  return {
    operations,
    envelope: named("Error"),
    serviceError: named("DetectionError"),
    googleError: named("GoogleError"),
  };
}

/** Fails when a JSON answer is not what the document says of this route. Errors must have the envelope. */
export function conforms(routes: readonly Route[], method: string, path: string, status: number, body: unknown) {
  contract ??= read(routes);
  const { operations, envelope, serviceError, googleError } = contract;
  const bare = (path.split("?")[0] as string).replace(/(?<=.)\/$/, ""); // a slash at the end is forgiven
  const format = clientFormatOf(bare);
  const isPlain = isServicePath(bare) || format === "ollama";
  const failure = format === "google" ? googleError : isPlain ? serviceError : envelope;
  if (status >= 400) return check(failure(), `${method} ${path} → ${status}`, body);
  const segments = bare.split("/");
  const found = operations.find(
    (o) =>
      o.method === method.toLowerCase() &&
      (o.parts.length === segments.length || (o.path.endsWith("/{path}") && o.parts.length < segments.length)) &&
      o.parts.every((part, i) => part.startsWith("{") || part === segments[i]),
  );
  const answer = found?.answers.get(String(status));
  if (!answer)
    throw new Error(`${method} ${path} answered ${status} with JSON, which the OpenAPI document does not list`);
  check(answer(), `${method} ${path} → ${status}`, body);
}

function check(validate: ValidateFunction, what: string, body: unknown) {
  if (validate(body)) return;
  const errors = validate.errors
    ?.map((e) => `${e.instancePath || "/"} ${e.message} ${JSON.stringify(e.params)}`)
    .join("\n");
  throw new Error(`${what} does not match the OpenAPI document:\n${errors}\n${JSON.stringify(body)}`);
}
