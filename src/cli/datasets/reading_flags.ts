/** The flags that say how a file of rows is read. */
import { UsageError } from "../../lib/errors.ts";
import { type ColumnMap, MAP_RULE, parseMap } from "../../lib/rows/columns.ts";
import { SHAPES, type Shape } from "../../lib/rows/shape.ts";
import { ShapeOptions } from "../../lib/rows/shaping.ts";
import { nearest } from "../../lib/text/nearest.ts";

export const MAP_FLAG = {
  type: "string",
  value: "COLUMN=FIELD",
  multiple: true,
  doc: "Field that a column of the file is, such as question=prompt; may be given several times",
} as const;
export const SHAPE_FLAG = {
  type: "string",
  value: "SHAPE",
  choices: SHAPES,
  doc: `Shape of the rows, if two fit: ${SHAPES.join(", ")}`,
} as const;

export function mapOf(maps: readonly string[]): ColumnMap {
  const pairs = maps.join(",");
  try {
    return pairs === "" ? {} : ShapeOptions.shape.map.parse(parseMap(pairs));
  } catch {
    throw new UsageError(`--map: ${JSON.stringify(pairs)} ${MAP_RULE}`);
  }
}

export function knownShape(text: string | undefined): Shape | undefined {
  const shape = SHAPES.find((each) => each === text);
  if (shape !== undefined || text === undefined) return shape;
  const close = nearest(text, SHAPES);
  throw new UsageError(
    `--shape: there is no shape ${JSON.stringify(text)}${close ? `. Did you mean ${close}?` : `: ${SHAPES.join(", ")}`}`,
  );
}
