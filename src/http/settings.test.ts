import { describe, expect, test } from "bun:test";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { z } from "zod";
import { settings } from "./settings.ts";

const LEVELS = ["low", "high"] as const;
const lamps = sqliteTable("lamps", {
  id: text("id").primaryKey(),
  level: text("level", { enum: LEVELS }).notNull(),
  maxWatts: integer("max_watts"),
  fadeMs: integer("fade_ms").notNull(),
  label: text("label").notNull(),
});

const SETTINGS = settings(lamps, {
  label: {
    input: () => z.string().min(1).describe("Unique"),
    update: () => z.string().min(1),
    answer: () => z.string(),
  },
  level: { input: () => z.enum(LEVELS).default("low"), answer: () => z.enum(LEVELS) },
  max_watts: { input: () => z.int().min(1).nullable().default(null), answer: () => z.int().nullable() },
  fade_seconds: {
    column: "fadeMs",
    input: () => z.number().optional().describe("Default: 1"),
    answer: () => z.number(),
    toColumn: (seconds: number) => seconds * 1000,
    fromColumn: (ms: number) => ms / 1000,
  },
});

const Create = z.object(SETTINGS.create());
const Update = z.object(SETTINGS.update());
const jsonOf = (form: z.ZodType) => z.toJSONSchema(form, { io: "input" });

describe("forms of requests and answers", () => {
  test("a creation has the defaults, and an update nothing that was not given", () => {
    expect(Create.parse({ label: "desk" })).toEqual({ label: "desk", level: "low", max_watts: null });
    expect(Create.safeParse({}).success).toBe(false);
    expect(Update.parse({})).toEqual({});
    expect(Update.parse({ max_watts: null })).toEqual({ max_watts: null });
  });

  test("an update has the limits of a creation", () => {
    for (const form of [Create, Update]) {
      expect(form.safeParse({ label: "desk", max_watts: 0 }).success).toBe(false);
      expect(form.safeParse({ label: "desk", level: "none" }).success).toBe(false);
    }
  });

  test("an update does not repeat what is said about a creation", () => {
    expect(jsonOf(Create).properties).toMatchObject({
      label: { description: "Unique" },
      fade_seconds: { description: "Default: 1" },
      level: { default: "low" },
    });
    expect(jsonOf(Update).properties).toMatchObject({
      label: { type: "string", minLength: 1 },
      fade_seconds: { type: "number" },
      level: { type: "string" },
    });
    expect(JSON.stringify(jsonOf(Update))).not.toMatch(/description|default|required/);
  });

  test("an answer has each setting in the order of the declaration", () => {
    expect(Object.keys(SETTINGS.answer())).toEqual(["label", "level", "max_watts", "fade_seconds"]);
    expect(z.toJSONSchema(z.object(SETTINGS.answer())).required).toHaveLength(4);
  });
});

describe("columns", () => {
  const given = { label: "desk", level: "high", max_watts: 8, fade_seconds: 2.5 } as const;
  const cells = { label: "desk", level: "high", maxWatts: 8, fadeMs: 2500 } as const;

  test("a new row has all of them, in their units, and nothing else of the request", () => {
    const request = { ...given, id: "lamp_1" };
    expect(SETTINGS.columns(request)).toEqual(cells);
  });

  test("a change has those of the given settings only; null is given", () => {
    expect(SETTINGS.changes({ fade_seconds: 0.5, max_watts: null, level: undefined })).toEqual({
      fadeMs: 500,
      maxWatts: null,
    });
    expect(SETTINGS.changes({})).toEqual({});
  });

  test("a row is shown with all settings, in their units", () => {
    expect(SETTINGS.present(cells)).toEqual(given);
  });
});

/** Each of these is refused by the compiler: an unused `@ts-expect-error` is an error of its own. */
describe("a declaration that does not fit the table does not compile", () => {
  const whole = { input: () => z.int(), answer: () => z.int() };

  test("a name without a column: also refused when the program starts", () => {
    // @ts-expect-error no column has the name
    expect(() => settings(lamps, { max_wats: whole })).toThrow("no column has the name of the setting max_wats");
  });

  test("a misspelt column, and values of another type", () => {
    // @ts-expect-error there is no such column
    settings(lamps, { max_watts: { ...whole, column: "maxWats" } });
    // @ts-expect-error the column holds a text
    settings(lamps, { label: { input: () => z.int(), answer: () => z.string() } });
    // @ts-expect-error the column may hold null
    settings(lamps, { max_watts: whole });
    // @ts-expect-error the column takes two words only
    settings(lamps, { level: { input: () => z.string(), answer: () => z.string() } });
    // @ts-expect-error the conversion gives a text
    settings(lamps, { fade_ms: { ...whole, toColumn: (ms: number) => String(ms) } });
    // @ts-expect-error the conversion takes a text
    settings(lamps, { fade_ms: { ...whole, fromColumn: (ms: string) => Number(ms) } });
  });

  test("values that are missing or have the name of a column", () => {
    // @ts-expect-error fade_seconds is missing
    SETTINGS.columns({ label: "desk", level: "high", max_watts: 8 });
    // @ts-expect-error the name of the setting is max_watts
    SETTINGS.changes({ maxWatts: 8 });
    // @ts-expect-error a creation may lack fade_seconds
    SETTINGS.columns(Create.parse({ label: "desk" }));
  });
});
