/** Does the answer stay the same after re-encoding? */
import { useEffect, useRef, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { Detection } from "../../../resources/detection/schema.ts";
import { bytes, NONE } from "../../data/format.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Chart } from "../../kit/chart/chart.tsx";
import { Pill } from "../../kit/pill.tsx";
import { Table } from "../../kit/table.tsx";
import { toast } from "../../shell/toasts.tsx";
import type { Item } from "./files.ts";
import { RECODINGS, type Recoded, recodeAll } from "./recode.ts";
import { changeOf, chartOf, scoreOf, tierOf } from "./words.ts";

/** Without a detection: its turn has not come. All rows are there from the start, so that nothing moves. */
type Row = { label: string } & Partial<Recoded>;

export function Matrix({ item, detection }: { item: Item; detection: Detection }) {
  const [rows, setRows] = useState<readonly Recoded[]>([]);
  const [isBegun, begin] = useState(false);
  const stop = useRef<AbortController>(null);
  useEffect(() => () => stop.current?.abort(), []);
  const run = async () => {
    const aborting = new AbortController();
    stop.current = aborting;
    setRows([]);
    begin(true);
    try {
      for await (const row of recodeAll(item.file, aborting.signal)) setRows((shown) => [...shown, row]);
    } catch (error) {
      toast(errorText(error), "bad");
    }
  };
  const before = detection.ensemble_score;
  const first: Row = { label: "As it is", bytes: item.file.size, detection };
  const all: readonly Row[] = [
    first,
    ...RECODINGS.map(({ label }) => rows.find((row) => row.label === label) ?? { label }),
  ];
  const scores = all.map((row) => ({ name: row.label, score: row.detection?.ensemble_score ?? null }));
  const flips = rows.some((row) => row.detection.ensemble_score >= 0.5 !== before >= 0.5);
  return (
    <Card
      title="Re-encoded copies"
      note={rows.length === RECODINGS.length ? (flips ? "the answer flips" : "the answer stays") : undefined}
      side={<Button onClick={run}>{isBegun ? "Again" : "Re-encode"}</Button>}
    >
      {!isBegun ? (
        <p class="muted">
          Sites re-encode what is uploaded. This makes {RECODINGS.length} copies here and detects each.
        </p>
      ) : (
        <>
          <Chart {...chartOf("Scores of the copies", "copy", scores)} height={200} />
          <Table
            label="Re-encoded copies"
            rows={all}
            keyOf={({ label }) => label}
            columns={[
              { title: "Copy", cell: ({ label }) => label },
              { title: "Size", cell: ({ bytes: size }) => bytes(size), numeric: true, wide: true },
              {
                title: "Score",
                cell: (row) => (row.detection ? scoreOf(row.detection.ensemble_score) : NONE),
                numeric: true,
              },
              {
                title: "Change",
                cell: (row) => (row === first || !row.detection ? "" : changeOf(row.detection.ensemble_score, before)),
                numeric: true,
                wide: true,
              },
              {
                title: "Tier",
                cell: (row) => {
                  if (!row.detection) return <Pill tone="idle">Is scored</Pill>;
                  const { text, tone } = tierOf(row.detection.prediction);
                  return <Pill tone={tone}>{text}</Pill>;
                },
              },
            ]}
          />
        </>
      )}
    </Card>
  );
}
