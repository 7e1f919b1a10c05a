/**
 * Fields by which a request says what its answer obeys: those of llama.cpp (`grammar`, `json_schema`) and of vLLM
 * (`guided_…`, `structured_outputs`). Pure.
 */
import { z } from "zod";
import { JsonSchema } from "./messages.ts";

const MAX_GRAMMAR = 65_536; // characters: llama.cpp takes long to read a larger grammar
const MAX_CHOICES = 1_000;
const MAX_CHOICE = 1_000; // characters

const grammar = () => z.string().max(MAX_GRAMMAR);
const choice = () => z.array(z.string().min(1).max(MAX_CHOICE)).min(1).max(MAX_CHOICES);

/** Clients of vLLM send a schema as an object or as its JSON text. */
const schemaOrText = () =>
  z.union([JsonSchema, z.string()]).transform((schema, issues): Record<string, unknown> => {
    if (typeof schema !== "string") return schema;
    const parsed = JsonSchema.safeParse(parsedOrNull(schema));
    if (parsed.success) return parsed.data;
    issues.addIssue({ code: "custom", message: "must be a JSON schema: an object, or the JSON text of one" });
    return z.NEVER;
  });

function parsedOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const asIn = (field: string) => `The same as structured_outputs.${field}, as older clients of vLLM name it`;

export const constraintFields = () => ({
  grammar: grammar().nullish().describe("A grammar in GBNF with the rule root. The answer obeys it"),
  json_schema: JsonSchema.nullish().describe("A JSON schema that the answer obeys, as in response_format"),
  structured_outputs: z
    .object({
      json: schemaOrText().nullish(),
      json_object: z.boolean().nullish().describe("true: the answer is a JSON object"),
      regex: grammar().nullish().describe("A regular expression that the whole answer matches"),
      choice: choice().nullish().describe("The answer is one of these texts"),
      grammar: grammar().nullish().describe("A grammar in GBNF with the rule root"),
      structural_tag: z.null({ error: "is not supported. Use tools, or a grammar" }).optional(),
    })
    .nullish()
    .describe("What the answer obeys, as vLLM names it: one of these"),
  guided_json: schemaOrText().nullish().describe(asIn("json")),
  guided_regex: grammar().nullish().describe(asIn("regex")),
  guided_choice: choice().nullish().describe(asIn("choice")),
  guided_grammar: grammar().nullish().describe(asIn("grammar")),
  output_format: elsewhere(),
  output_config: elsewhere(),
});

/** Clients that send it expect that the answer obeys it. */
const elsewhere = () =>
  z.null({ error: "is a field of /v1/messages. Use response_format here" }).optional().describe("Must be absent");

type Fields = z.output<z.ZodObject<ReturnType<typeof constraintFields>>>;
export type Constraint = { at: string } & (
  | { kind: "grammar"; value: string }
  | { kind: "schema"; value: Record<string, unknown> }
  | { kind: "regex"; value: string }
  | { kind: "choice"; value: readonly string[] }
);

/** All constraints of a request. A valid request has at most one. `at`: a JSON pointer to the field. */
export function constraintsOf(request: Partial<Fields>): Constraint[] {
  const { structured_outputs: outputs } = request;
  const all: Constraint[] = [];
  const add = <K extends Constraint["kind"]>(
    kind: K,
    at: string,
    value: Extract<Constraint, { kind: K }>["value"] | null | undefined,
  ) => {
    if (value !== null && value !== undefined && value !== "") all.push({ kind, at, value } as Constraint);
  };
  add("grammar", "/grammar", request.grammar);
  add("schema", "/json_schema", request.json_schema);
  add("schema", "/structured_outputs/json", outputs?.json);
  add("schema", "/structured_outputs/json_object", outputs?.json_object ? { type: "object" } : null);
  add("regex", "/structured_outputs/regex", outputs?.regex);
  add("choice", "/structured_outputs/choice", outputs?.choice);
  add("grammar", "/structured_outputs/grammar", outputs?.grammar);
  add("schema", "/guided_json", request.guided_json);
  add("regex", "/guided_regex", request.guided_regex);
  add("choice", "/guided_choice", request.guided_choice);
  add("grammar", "/guided_grammar", request.guided_grammar);
  return all;
}

/** `/structured_outputs/json` → `structured_outputs.json` */
export const fieldName = ({ at }: Constraint): string => at.slice(1).replaceAll("/", ".");
