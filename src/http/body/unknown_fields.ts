/**
 * Fields of a body that its schema does not have. A name that looks like a known one is most likely a typing mistake,
 * and to ignore it would do something else than the caller wants: it is refused. Others are ignored, so that a client
 * with more fields keeps working, and the answer names them in its `warning` header.
 */
import type { z } from "zod";
import { AppError } from "../../lib/errors.ts";
import { isTree } from "../../lib/json/object.ts";
import { jsonPointer } from "../../lib/json/pointer.ts";
import { editDistance, LONGEST_NAME, MOST_SUGGESTED } from "../../lib/text/nearest.ts";
import { schemaError } from "../answer/issues.ts";
import { warn } from "../warnings.ts";
import { fieldsOf, insideOf, namesOf, ofKind, type Schema } from "./schema_parts.ts";

/** Their own checks know every name that is allowed inside, or every name is allowed. */
const EXEMPT = new Set(["hyperparameters", "lora", "metadata", "env"]);
const MOST_OBJECTS = 1_000; // of one body; a list of rows is not walked to its end
const MOST_UNKNOWN = 100; // that are named, of one body
const MOST_EDITS = 2;
/** Fields of other servers that have no effect here and look like a field that has one. */
const OF_OTHERS = new Set(["store", "speed", "min_tokens", "steps", "top_a", "top_k", "stop", "mode", "models"]);
/** Fields of other servers that make the answer obey a form. To ignore one would answer in another form. */
const CONSTRAINS = new Set([
  "guided_json",
  "guided_regex",
  "guided_choice",
  "guided_grammar",
  "structured_outputs",
  "output_format",
  "ebnf",
  "regex",
]);
/** Clients send parts of an answer back as they got them. */
const OF_ANSWERS = new Set(["id", "type", "status", "annotations", "logprobs", "refusal", "summary"]);

type Path = readonly PropertyKey[];
/** `named`: set for inference, where no field is refused. It has the named fields, without their places in lists. */
type Walk = { request: Request; objects: number; unknown: number; named?: Set<string> };

export function checkFields(request: Request, schema: Schema, value: unknown) {
  if (isTree(value)) walk({ request, objects: 0, unknown: 0 }, [schema], value, []);
}

/**
 * Names the fields of an inference request that have no effect. Each is named once, however many messages have it. A
 * field that looks like a known one is refused, and so is one that would constrain the output.
 */
export function nameUnknown(request: Request, schema: Schema, value: unknown) {
  if (isTree(value)) walk({ request, objects: 0, unknown: 0, named: new Set() }, [schema], value, []);
}

/** The same rule for a form, for each name as it arrives. The field `file` is for the file. */
export function formFieldCheck(request: Request, schema: z.core.$ZodObject): (name: string) => void {
  const fields = [...Object.keys(schema._zod.def.shape), "file"];
  let unknown = 0;
  return (name) => {
    if (fields.includes(name) || ++unknown > MOST_UNKNOWN) return;
    const meant = unknown > MOST_SUGGESTED ? undefined : similar(name, fields);
    if (meant === undefined) return warn(request, `unknown form field ${name}`);
    throw new AppError("schema", `${name}: there is no such field. Did you mean ${meant}?`, { param: name });
  };
}

function walk(state: Walk, schemas: readonly Schema[], value: object, path: PropertyKey[]) {
  if (state.objects > MOST_OBJECTS) return;
  const { objects: all, elements, takesAny } = insideOf(schemas);
  if (Array.isArray(value)) {
    if (elements.length > 0) for (const [i, element] of value.entries()) step(state, elements, element, path, i);
    return;
  }
  state.objects++;
  if (all.length === 0 || takesAny) return;
  const objects = state.named ? ofKind(all, value) : all;
  for (const [name, field] of Object.entries(value)) {
    const fields = fieldsOf(objects, name);
    if (fields.length > 0) {
      if (state.named || !EXEMPT.has(name)) step(state, fields, field, path, name);
    } else if (state.unknown <= MOST_UNKNOWN && objects.every((schema) => schema._zod.def.catchall === undefined)) {
      if (state.named) nameOnce(state, state.named, { path: [...path, name], value: field, names: namesOf(objects) });
      else refuseOrWarn(state, [...path, name], namesOf(objects));
    }
  }
}

function step(state: Walk, schemas: readonly Schema[], value: unknown, path: PropertyKey[], key: PropertyKey) {
  if (!isTree(value)) return;
  path.push(key);
  walk(state, schemas, value, path);
  path.pop();
}

type Unknown = { path: Path; value: unknown; names: readonly string[] };

function nameOnce(state: Walk, named: Set<string>, { path, value, names }: Unknown) {
  const name = String(path.at(-1));
  if (value === null || (path.length > 1 && OF_ANSWERS.has(name))) return;
  const field = jsonPointer(path.map((step) => (typeof step === "number" ? "*" : step)));
  if (named.has(field) || ++state.unknown > MOST_UNKNOWN) return;
  if (path.length === 1 && CONSTRAINS.has(name))
    throw schemaError({ path, message: "has no effect here: use response_format with a JSON schema, or grammar" });
  const meant = OF_OTHERS.has(name) || state.unknown > MOST_SUGGESTED ? undefined : similar(name, names);
  if (meant !== undefined) throw schemaError({ path, message: `there is no such field. Did you mean ${meant}?` });
  named.add(field);
  warn(state.request, `unknown field ${jsonPointer(path)}`);
}

function refuseOrWarn(state: Walk, path: Path, names: readonly string[]) {
  if (++state.unknown > MOST_UNKNOWN) return;
  const meant = state.unknown > MOST_SUGGESTED ? undefined : similar(String(path.at(-1)), names);
  if (meant !== undefined) throw schemaError({ path, message: `there is no such field. Did you mean ${meant}?` });
  warn(state.request, `unknown field ${jsonPointer(path)}`);
}

/** The one of `names` within two edits. With nothing in common, two short names are within two edits too: `id` and `to`. */
export function similar(name: string, names: readonly string[]): string | undefined {
  if (name.length > LONGEST_NAME) return undefined;
  const near = names.map((each) => ({ each, edits: editDistance(name.toLowerCase(), each.toLowerCase(), MOST_EDITS) }));
  const best = near.sort((a, b) => a.edits - b.edits)[0];
  if (best === undefined || best.edits > Math.min(MOST_EDITS, name.length - 1, best.each.length - 1)) return undefined;
  return best.each;
}
