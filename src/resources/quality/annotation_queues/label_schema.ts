/** The label schema of a queue, and the values that an annotation gives to it. */
import { z } from "zod";
import { rowFault } from "../../../lib/rows/format.ts";
import { Label, later } from "../../../lib/schema.ts";

const MAX_LABELS = 20;
const MAX_OPTIONS = 100;
const MAX_SPANS = 200;
const MAX_TEXT = 20_000;

const options = () =>
  z
    .array(Label(100))
    .min(1)
    .max(MAX_OPTIONS)
    .refine((options) => new Set(options).size === options.length, "has the same option twice");
const common = () => ({
  name: Label(64),
  description: Label(1000).nullish(),
  required: z.boolean().default(true).describe("An annotation without this label is rejected"),
});

const labelField = () =>
  z.discriminatedUnion("type", [
    z.object({
      ...common(),
      type: z.literal("choice"),
      options: options(),
      multiple: z.boolean().default(false).describe("The value is a list of options"),
      ordered: z.boolean().default(false).describe("The options are in order: agreement counts near misses"),
    }),
    z
      .object({
        ...common(),
        type: z.literal("scale"),
        min: z.int().min(-1_000).max(1_000).default(1),
        max: z.int().min(-1_000).max(1_000).default(5),
      })
      .refine(({ min, max }) => min < max, { path: ["max"], message: "must be greater than min" }),
    z.object({ ...common(), type: z.literal("text") }),
    z.object({
      ...common(),
      type: z.literal("span"),
      options: options().describe("What a span can be marked as"),
      of: z.enum(["output", "input"]).default("output").describe("The text that is marked; input must be a text"),
    }),
  ]);
/** Two schemas of one shape: the OpenAPI document lets answers gain fields, and names each schema separately. */
const NewLabelField = later(() => labelField().meta({ id: "NewAnnotationLabel" }));
export const LabelField = later(() => labelField().meta({ id: "AnnotationLabel" }));
export type LabelField = z.infer<typeof NewLabelField>;

export const LabelFields = later(() =>
  z
    .array(NewLabelField)
    .max(MAX_LABELS)
    .refine((fields) => new Set(fields.map(({ name }) => name)).size === fields.length, "has the same name twice"),
);

const Span = later(() =>
  z.object({
    start: z.int().min(0).describe("First character, counted in Unicode code points from 0"),
    end: z.int().min(1).describe("The character after the last"),
    label: z.string(),
  }),
);
export const LabelValue = later(() =>
  z.union([z.string().max(MAX_TEXT), z.number(), z.array(z.string()).max(MAX_OPTIONS), z.array(Span).max(MAX_SPANS)]),
);
export type LabelValue = z.infer<typeof LabelValue>;

export const PREFERENCES = ["first", "second", "tie"] as const;
export type Preferred = (typeof PREFERENCES)[number];

export type AnnotationValue = {
  labels: Record<string, LabelValue>;
  /** Null in a single queue, and for a skip. */
  preferred: Preferred | null;
  /** The answer as it should be. Null: the annotator did not correct it. */
  correction: string | null;
};

/** The result of a completed item. `votes` counts the annotators by their choice. */
export type Outcome = {
  preferred: Preferred | null;
  correction: string | null;
  votes: Record<Preferred, number> | null;
};

export const Input = later(() =>
  z
    .union([z.string().min(1), z.array(z.record(z.string(), z.unknown())).min(1).max(1_000)])
    .superRefine((input, { addIssue }) => {
      const fault = rowFault({ prompt: input }, "prompt");
      if (fault) addIssue({ code: "custom", message: fault.message });
    }),
);
export type Input = string | Record<string, unknown>[];

export const SOURCES = ["given", "trace", "dataset", "experiment"] as const;
/** The origin of an item's content. */
export type Source = {
  type: (typeof SOURCES)[number];
  trace_ids: string[];
  dataset_id: string | null;
  row_id: number | null;
  experiment_item_ids: string[];
};
