/** The columns of a dataset: in the head of the list, and each one described. */
import type { DatasetStatistics } from "../../../resources/data/datasets/stream/statistics.ts";
import { count, number, percent, plural, words } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { Card, Facts, Stat } from "../../kit/card.tsx";
import { Empty, Loaded, Skeleton } from "../../kit/page.tsx";
import { setQuery } from "../../shell/router.ts";

export type ColumnFacts = DatasetStatistics["columns"][number];

export const useStatistics = (id: string, snapshot: string | undefined) =>
  useResource<DatasetStatistics>(
    `/v1/datasets/${id}/statistics${snapshot === undefined ? "" : `?snapshot=${encodeURIComponent(snapshot)}`}`,
    { events: ["dataset."] },
  );

/** The most frequent type, and whether there are others. */
export function typeName({ types }: ColumnFacts): string {
  const [first, ...others] = types.filter(({ type }) => type !== "null");
  return first ? words(first.type) + (others.length > 0 ? " and other" : "") : "Empty";
}

export function Columns({ id, snapshot }: { id: string; snapshot: string | undefined }) {
  const statistics = useStatistics(id, snapshot);
  return (
    <Loaded of={statistics} skeleton={<Skeleton height={420} />}>
      {(data) =>
        data.columns.length === 0 ? (
          <Card>
            <Empty title="No row yet">Append rows, and their columns are described here.</Empty>
          </Card>
        ) : (
          <Whole data={data} />
        )
      }
    </Loaded>
  );
}

const Whole = ({ data }: { data: DatasetStatistics }) => (
  <div class="grid">
    <div class="grid stats">
      <Stat label="Rows measured" value={count(data.measured_rows)} change={data.is_whole ? undefined : "the first"} />
      <Stat label="Columns" value={count(data.columns.length + data.columns_left_out)} />
      <Stat
        label="Equal to an earlier row"
        value={count(data.duplicates)}
        change={data.duplicates > 0 ? percent(data.duplicates / data.measured_rows, 1) : undefined}
        tone={data.duplicates > 0 ? "bad" : undefined}
      />
    </div>
    <div class="datasets-columns">
      {data.columns.map((column) => (
        <Column key={column.name} column={column} rows={data.measured_rows} />
      ))}
    </div>
    {data.columns_left_out > 0 && (
      <p class="muted">{plural(data.columns_left_out, "more column")} are not described.</p>
    )}
  </div>
);

function Column({ column, rows }: { column: ColumnFacts; rows: number }) {
  const { length, number: numbers, frequent, distinct, present } = column;
  const types = column.types.map(({ type, count: n }) => `${words(type)} ${percent(n / present)}`);
  return (
    <Card title={column.name} note={typeName(column)}>
      <div class="stack">
        <Facts
          rows={[
            ["In rows", present === rows ? "All" : `${count(present)}, ${percent(present / rows, 1)}`],
            ...(types.length > 1 ? [["Types", types.join(", ")] as const] : []),
            ...(distinct === null ? [] : [["Different values", count(distinct)] as const]),
            ...(length
              ? [["Characters", `${count(length.min)} to ${count(length.max)}, mean ${number(length.mean)}`] as const]
              : []),
            ...(numbers
              ? [["Range", `${number(numbers.min)} to ${number(numbers.max)}, mean ${number(numbers.mean)}`] as const]
              : []),
          ]}
        />
        {length && length.min < length.max && <Histogram label="Lengths in characters" of={length} />}
        {numbers && numbers.min < numbers.max && <Histogram label="Values" of={numbers} />}
        {frequent.length > 0 && <Frequent of={frequent} rows={present} />}
      </div>
    </Card>
  );
}

type Bar = { from: number; to: number; count: number };

function Histogram({ label, of }: { label: string; of: { min: number; max: number; histogram: readonly Bar[] } }) {
  const bars = of.histogram;
  const most = Math.max(...bars.map((bar) => bar.count)) || 1;
  const name = ({ from, to, count: n }: Bar) => `${number(from)} to ${number(to)}: ${plural(n, "row")}`;
  return (
    <figure class="datasets-histogram">
      <figcaption>{label}</figcaption>
      <div role="img" aria-label={`${label}: ${bars.map(name).join("; ")}`}>
        {bars.map((bar) => (
          <i key={bar.from} title={name(bar)}>
            <b style={{ height: `${(bar.count / most) * 100}%` }} class={bar.count > 0 ? "some" : ""} />
          </i>
        ))}
      </div>
      <div class="datasets-axis">
        <span>{number(of.min)}</span>
        <span>{number(of.max)}</span>
      </div>
    </figure>
  );
}

const MOST_FREQUENT = 5;

/** A click searches for the value. */
const Frequent = ({ of, rows }: { of: ColumnFacts["frequent"]; rows: number }) => (
  <ul class="datasets-frequent" aria-label="Frequent values">
    {of.slice(0, MOST_FREQUENT).map(({ value, count: n }) => (
      <li key={value}>
        <button
          type="button"
          class="plain"
          title={`Search for ${value}`}
          onClick={() => setQuery({ tab: undefined, q: value }, { push: true })}
        >
          {value === "" ? "(empty)" : value}
        </button>
        <span class="n">{count(n)}</span>
        <i style={{ width: `${(n / rows) * 100}%` }} />
      </li>
    ))}
  </ul>
);
