/**
 * Settings of a resource: fields that a caller sets, may change later and reads back, each in a column of its own. A
 * resource declares each of them once. The forms of its requests and answers, and the columns, follow from that.
 */
import { getTableColumns } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { z } from "zod";

export type Setting<Column = PropertyKey, Value = never> = {
  /** The form in a request that creates the resource, with its default: `() => z.int().min(0).default(256)`. */
  input: () => z.ZodType;
  /** The form in a request that changes the resource. Without it: that of `input`, without a default. */
  update?: () => z.ZodType;
  /** The form in an answer. */
  answer: () => z.ZodType;
  /** The column. Without it: the one whose name in the database is the name of the setting. */
  column?: Column;
  /** Conversions, for a column with another unit or form: seconds ↔ milliseconds. */
  toColumn?: (value: Value) => unknown;
  fromColumn?: (cell: Value) => unknown;
};

type Row<T extends SQLiteTable> = T["$inferSelect"];
type Declared<T extends SQLiteTable> = Readonly<Record<string, Setting<keyof Row<T>>>>;

/** `"maxHeldRequests"` for the setting `max_held_requests`, and never if there is no such column. */
type Column<T extends SQLiteTable, Name, S> = S extends { column: infer Key extends keyof Row<T> }
  ? Key
  : { [Key in keyof Row<T>]: T["_"]["columns"][Key]["_"]["name"] extends Name ? Key : never }[keyof Row<T>];
type Columns<T extends SQLiteTable, D> = Pick<Row<T>, { [Name in keyof D]: Column<T, Name, D[Name]> }[keyof D]>;

type Bare<Form> = Form extends z.ZodDefault<infer Inner> | z.ZodOptional<infer Inner> ? Inner : Form;
type Change<S extends Setting> = S extends { update: () => infer Form extends z.ZodType }
  ? Form
  : Bare<ReturnType<S["input"]>>;
type Value<S extends Setting> = z.output<Change<S>>;
type Answer<S extends Setting> = z.output<ReturnType<S["answer"]>>;

type ToColumn<S extends Setting> = S extends { toColumn: infer F } ? F : (value: Value<S>) => Value<S>;
type FromColumn<S, Cell> = S extends { fromColumn: infer F } ? F : (cell: Cell) => Cell;

/** The setting itself if its values fit the column and those of the column fit the answer. Else a sentence. */
type Checked<S extends Setting, Cell> = [Cell] extends [never]
  ? "no column has the name of this setting"
  : ToColumn<S> extends (value: Value<S>) => Cell
    ? FromColumn<S, Cell> extends (cell: Cell) => Answer<S>
      ? S
      : "the answer does not take the values of the column"
    : "the column does not take the values of this setting";

type Settings<T extends SQLiteTable, D extends Declared<T>> = {
  /** Fields of the request that creates the resource. */
  create: () => { [Name in keyof D]: ReturnType<D[Name]["input"]> };
  /** Fields of the request that changes it. All may be left out. */
  update: () => { [Name in keyof D]: z.ZodOptional<Change<D[Name]>> };
  /** Fields of the answer. */
  answer: () => { [Name in keyof D]: ReturnType<D[Name]["answer"]> };
  present: (row: Columns<T, D>) => { [Name in keyof D]: Answer<D[Name]> };
  /** All columns, for a new row. */
  columns: (values: { [Name in keyof D]: Value<D[Name]> }) => Columns<T, D>;
  /** The columns of the given settings only. */
  changes: (values: { [Name in keyof D]?: Value<D[Name]> | undefined }) => Partial<Columns<T, D>>;
};

export function settings<T extends SQLiteTable, D extends Declared<T>>(
  table: T,
  declared: D & { [Name in keyof D]: Checked<D[Name], Row<T>[Column<T, Name, D[Name]>]> },
): Settings<T, D>;
// A loop over settings of different types has no type of its own. So the code below sees unknown values, and the
// signature above says which ones they are. This is the only place that the compiler takes on trust.
export function settings(table: SQLiteTable, declared: Readonly<Record<string, Setting<string, unknown>>>) {
  type Values = Readonly<Record<string, unknown>>;
  const keys = new Map(Object.entries(getTableColumns(table)).map(([key, column]) => [column.name, key]));
  const all = Object.entries(declared).map(([name, setting]) => ({ ...setting, name, key: keyOf(name, setting) }));
  const changes = (values: Values) =>
    Object.fromEntries(
      all
        .filter(({ name }) => values[name] !== undefined)
        .map(({ name, key, toColumn }) => [key, toColumn ? toColumn(values[name]) : values[name]]),
    );

  function keyOf(name: string, { column }: Setting<string>) {
    const key = column ?? keys.get(name);
    if (key === undefined) throw new Error(`no column has the name of the setting ${name}`);
    return key;
  }

  return {
    create: () => Object.fromEntries(all.map(({ name, input }) => [name, input()])),
    update: () =>
      Object.fromEntries(all.map(({ name, input, update }) => [name, z.optional(update?.() ?? bare(input()))])),
    answer: () => Object.fromEntries(all.map(({ name, answer }) => [name, answer()])),
    present: (row: Values) =>
      Object.fromEntries(all.map(({ name, key, fromColumn }) => [name, fromColumn ? fromColumn(row[key]) : row[key]])),
    columns: changes,
    changes,
  };
}

const bare = (form: z.ZodType) =>
  form instanceof z.ZodDefault || form instanceof z.ZodOptional ? form.unwrap() : form;
