/** The columns of a file with their first cells, and the field that each of them becomes. */
import type { ColumnMap } from "../../../lib/rows/columns.ts";
import type { FileRows } from "./file_preview.ts";
import { textOf } from "./turns.ts";

const FIELDS = ["prompt", "completion", "messages", "chosen", "rejected", "answer", "label"];
const SHOWN_ROWS = 3;
const SHOWN_COLUMNS = 24;
const AS_IT_IS = "";

type Props = { file: FileRows; map: ColumnMap; onChange: (map: ColumnMap) => void };

export function Mapping({ file: { columns, parsed }, map, onChange }: Props) {
  const set = (column: string, field: string) => {
    const { [column]: _, ...others } = map;
    onChange(field === AS_IT_IS || field === column ? others : { ...others, [column]: field });
  };
  const shown = columns.slice(0, SHOWN_COLUMNS);
  const rows = parsed.flatMap(({ line, row }) => (row ? [{ line, row }] : [])).slice(0, SHOWN_ROWS);
  return (
    <section class="datasets-sample" aria-label="Columns of the file">
      <table>
        <thead>
          <tr>
            {shown.map((column) => (
              <th key={column} scope="col">
                {column}
                <select
                  aria-label={`${column} becomes`}
                  value={map[column] ?? AS_IT_IS}
                  onChange={(event) => set(column, event.currentTarget.value)}
                >
                  <option value={AS_IT_IS}>as it is</option>
                  {[...new Set([...FIELDS, ...Object.values(map)])].map((field) => (
                    <option key={field} value={field}>
                      {field}
                    </option>
                  ))}
                </select>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ line, row }) => (
            <tr key={line}>
              {shown.map((column) => (
                <td key={column}>{row[column] === undefined ? "" : textOf(row[column]).slice(0, 200)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {columns.length > SHOWN_COLUMNS && <p class="muted">and {columns.length - SHOWN_COLUMNS} more columns</p>}
    </section>
  );
}

export const mapText = (map: ColumnMap): string => (Object.keys(map).length === 0 ? "" : JSON.stringify(map));
