/** The settings in the address, so that a link shows the same. */
import { queryOf, setQuery } from "../../shell/router.ts";
import { DEFAULTS, FIELDS, type Fields } from "./request.ts";

/** A server must read the address when the page is loaded again: a longer one is not written. */
const MOST_ADDRESS = 6_000;

export const fieldsOfAddress = (): Fields => {
  const read = FIELDS.map((name) => [name, queryOf(name) ?? DEFAULTS[name]]);
  return { ...DEFAULTS, ...Object.fromEntries(read) };
};

/** Texts that are too long for a link are not in it. */
export function writeAddress(fields: Fields) {
  const length = FIELDS.reduce((sum, name) => sum + encodeURIComponent(fields[name]).length, 0);
  if (length > MOST_ADDRESS) return;
  const changes = FIELDS.map((name) => [name, fields[name] === DEFAULTS[name] ? undefined : fields[name]]);
  setQuery(Object.fromEntries(changes));
}
