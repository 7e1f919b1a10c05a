/** Every state machine of the product, wherever it is declared. */
import { join } from "node:path";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { ROOT, read, sources } from "./imports.ts";

export type AnyMachine = {
  table: SQLiteTable & { id: SQLiteColumn; status: SQLiteColumn; updatedAt: SQLiteColumn };
  initial: string;
  terminal: string[];
  steps: Record<string, readonly [from: readonly string[], to: string, event: string | null]>;
};

const isMachine = (value: unknown): value is AnyMachine =>
  typeof value === "object" && value !== null && "steps" in value && "table" in value && "terminal" in value;

const DECLARES = /= lifecycle\(/g;

export const declared = sources.filter((file) => file !== "src/events/lifecycle.ts" && read(file).match(DECLARES));

/** File and name → machine. */
export async function machines(): Promise<[name: string, machine: AnyMachine][]> {
  const found: [string, AnyMachine][] = [];
  for (const file of declared)
    for (const [name, value] of Object.entries((await import(join(ROOT, file))) as object))
      if (isMachine(value)) found.push([`${file} ${name}`, value]);
  return found;
}

export const declarations = () => declared.reduce((sum, file) => sum + (read(file).match(DECLARES)?.length ?? 0), 0);
