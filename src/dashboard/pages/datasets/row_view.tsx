/** One row: as a line of a list, and whole. */
import type { StreamRow } from "../../../resources/data/datasets/schema.ts";
import { count } from "../../data/format.ts";
import { Facts } from "../../kit/card.tsx";
import { cellOf, lineOf, restOf, textOf, turnsOf } from "./turns.ts";

type LineProps = {
  place: number;
  row: StreamRow | null | undefined;
  /** Empty: the row is one text. */
  columns: readonly string[];
  chosen: boolean;
  onPick: () => void;
};

export function RowLine({ place, row, columns, chosen, onPick }: LineProps) {
  if (!row)
    return (
      <div class="datasets-line">
        <span class="datasets-place">{count(place)}</span>
        {row === null ? <em>Removed, or a change of an earlier row</em> : <i />}
      </div>
    );
  return (
    <button type="button" class="datasets-line" aria-current={chosen ? "true" : undefined} onClick={onPick}>
      <span class="datasets-place">
        {row.op === "supersede" && (
          <em title="This row was changed">
            <span class="hidden">changed </span>
          </em>
        )}
        {count(place)}
      </span>
      {columns.length === 0 ? (
        <span class="datasets-text">{lineOf(row.data ?? {})}</span>
      ) : (
        columns.map((name) => (
          <span key={name} class="datasets-text">
            {cellOf(row.data ?? {}, name)}
          </span>
        ))
      )}
    </button>
  );
}

/** The turns that the chat template of the model gets, and the other columns. */
export function Turns({ row }: { row: Readonly<Record<string, unknown>> }) {
  const rest = restOf(row);
  return (
    <div class="stack">
      {turnsOf(row).map(({ role, text }, i) => (
        <div key={`${i}${role}`} class="datasets-turn">
          <small>{role}</small>
          <pre class="text">{text}</pre>
        </div>
      ))}
      {rest.length > 0 && <Facts rows={rest.map(([key, value]) => [key, textOf(value)])} />}
    </div>
  );
}
