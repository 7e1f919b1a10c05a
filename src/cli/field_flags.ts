/**
 * Flags that set fields of a request. One table gives the flags, the body of the request, and the names of the flags in
 * errors of the API. The type of the request ties the table to the server: a field that it does not have, or a number
 * that would be sent as text, does not compile.
 */
import type { Flag } from "./args.ts";

/** Gives the value of the field, or throws a UsageError that names the flag. */
type Reader<Value> = (flag: string, text: string) => Value;
type FieldFlag<Body, Field extends keyof Body> = Flag & {
  /** The field of the request. */
  sets: Field;
} & (NonNullable<Body[Field]> extends string | boolean
    ? { read?: Reader<Body[Field]> }
    : { read: Reader<Body[Field]> });
export type FieldFlags<Body> = Readonly<
  Record<string, { [Field in keyof Body]-?: FieldFlag<Body, Field> }[keyof Body]>
>;

type Table = Readonly<Record<string, { sets: string; read?: Reader<unknown> }>>;
type FlagTexts = Readonly<Record<string, string | boolean | string[] | undefined>>;

/** The body of the request. It has only the given fields, so that the server's defaults apply to the rest. */
export const bodyOf = (table: Table, texts: FlagTexts) =>
  Object.fromEntries(
    Object.entries(table).flatMap(([flag, { sets, read }]) => {
      const value = texts[flag];
      if (value === undefined || value === false) return [];
      return [[sets, read && typeof value === "string" ? read(flag, value) : value]];
    }),
  );

/** `fields` of the command. */
export const fieldsOf = (table: Table) =>
  Object.fromEntries(Object.entries(table).map(([flag, { sets }]) => [sets, `--${flag}`]));
