/** Sorts the names of a request: known here, known elsewhere and ignored, another name, or unknown. */
import { editDistance, LONGEST_NAME } from "../text/nearest.ts";
import { FOREIGN_NAMES, MEANT } from "./foreign_names.ts";

type Vocabulary = {
  known: readonly string[];
  aliases: Readonly<Record<string, string>>;
  ignored: ReadonlySet<string>;
};
export type Sorted = {
  /** By the name that the setting has here. `from`: the name in the request. */
  given: { name: string; from: string; value: unknown }[];
  ignored: string[];
  unknown: string[];
  /** Names for a setting that the request also has under its own name. */
  twice: { from: string; name: string }[];
};

export function sortNames(raw: object, { known, aliases, ignored }: Vocabulary): Sorted {
  const sorted: Sorted = { given: [], ignored: [], unknown: [], twice: [] };
  const names = new Set(known);
  for (const [from, value] of Object.entries(raw)) {
    const alias = Object.hasOwn(aliases, from) ? aliases[from] : undefined;
    const name = alias !== undefined && names.has(alias) ? alias : from;
    if (name !== from && sorted.given.concat(ownOf(raw, name)).some((each) => each.name === name))
      sorted.twice.push({ from, name });
    else if (names.has(name)) sorted.given.push({ name, from, value });
    else if (ignored.has(from)) sorted.ignored.push(from);
    else sorted.unknown.push(from);
  }
  return sorted;
}

const ownOf = (raw: object, name: string) => (Object.hasOwn(raw, name) ? [{ name, from: name, value: undefined }] : []);

const LONGEST_SHOWN = 80;
export const shortened = (name: string) => (name.length > LONGEST_SHOWN ? `${name.slice(0, LONGEST_SHOWN)}…` : name);

const MOST_EDITS = 2;

/**
 * A suggestion only for a typing mistake, a name with a word left out or added, or a common other name. A name that
 * merely looks similar may mean something else: max_prompt_length is not max_completion_length. So a name that another
 * config has, or a typing mistake of one, gets no suggestion.
 */
export function suggestion(name: string, names: readonly string[]): string {
  if (name.length > LONGEST_NAME) return "";
  const typed = name.toLowerCase();
  const meant = Object.hasOwn(MEANT, typed) ? MEANT[typed] : undefined;
  const similar = meant !== undefined && names.includes(meant) ? meant : similarTo(typed, names);
  return similar === undefined ? "" : `. Did you mean ${similar}?`;
}

function similarTo(name: string, names: readonly string[]): string | undefined {
  const distanceTo = (each: string) => editDistance(name, each, MOST_EDITS);
  const foreign = [...FOREIGN_NAMES].filter((each) => !names.includes(each));
  const others = Math.min(...foreign.map(distanceTo));
  const [close] = names.map((each) => ({ each, edits: distanceTo(each) })).sort((a, b) => a.edits - b.edits);
  if (close && close.edits <= MOST_EDITS && close.edits < name.length && close.edits <= others) return close.each;
  return others <= MOST_EDITS ? undefined : names.find((each) => hasWordsOf(name, each));
}

/** True if one name has all words of the other, in their order, and at least two of them. */
function hasWordsOf(a: string, b: string): boolean {
  const [short, long] = [a.split("_"), b.split("_")].sort((x, y) => x.length - y.length) as [string[], string[]];
  let at = 0;
  for (const word of long) if (word === short[at]) at++;
  return short.length >= 2 && at === short.length;
}
