import type { Field } from "./session.ts";
import { identifier } from "./session.ts";

/** Type numbers are fixed in the server's catalogue. A domain has the number of its base type. */
const BYTEA = 17;
const BYTEA_LIST = 1001;
const FLOATS = [700, 701];
const NUMERIC = 1700;
const NUMBER_LISTS = [1231, 1021, 1022];
const TIMESTAMPTZ = 1184;
const TIMESTAMPTZ_LIST = 1185;

const NOT_JSON = "('NaN', 'Infinity', '-Infinity')";
const base64 = (value: string) => `translate(encode(${value}, 'base64'), chr(10), '')`;

/** Rewrites a column so that the server's own to_json produces the documented JSON. */
function shown({ name, type }: Field): string {
  const value = `q.${identifier(name)}`;
  if (type === BYTEA) return base64(value);
  if (type === BYTEA_LIST)
    return `CASE WHEN ${value} IS NOT NULL THEN ARRAY(SELECT ${base64("item")} FROM unnest(${value}) item) END`;
  if (FLOATS.includes(type)) return `CASE WHEN ${value} NOT IN ${NOT_JSON} THEN ${value} END`;
  if (type === NUMERIC) return `CASE WHEN ${value}::text NOT IN ${NOT_JSON} THEN ${value} END`;
  if (NUMBER_LISTS.includes(type)) return `regexp_replace(to_json(${value})::text, '"[-A-Za-z]+"', 'null', 'g')::json`;
  if (type === TIMESTAMPTZ) return `replace(to_json(${value}) #>> '{}', '+00:00', 'Z')`;
  if (type === TIMESTAMPTZ_LIST) return `replace(to_json(${value})::text, '+00:00', 'Z')::json`;
  return value;
}

/** `$1` is the maximum row length in bytes. For a longer row only its length is sent, which no row looks like. */
export function linesQuery(query: string, fields: readonly Field[]): string {
  const columns = fields.map((field) => `${shown(field)} AS ${identifier(field.name)}`).join(", ");
  // OFFSET 0 keeps the planner from writing the row twice.
  return `SELECT CASE WHEN octet_length(t) > $1 THEN octet_length(t)::text ELSE t END
    FROM (SELECT row_to_json(verk.*)::text AS t FROM (SELECT ${columns} FROM (${query}\n) q) verk OFFSET 0) lines`;
}
