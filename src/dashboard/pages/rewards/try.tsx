/** Runs an evaluator over rows that are typed here. */
import { useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { EvaluatorRun } from "../../../resources/quality/evaluators/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { NONE, number, percent } from "../../data/format.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Stat } from "../../kit/card.tsx";
import { JsonField } from "../../kit/code/editor.tsx";
import { ErrorBox } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { Table } from "../../kit/table.tsx";

export const EXAMPLE = `{"input": "2 + 2 = ?", "output": "It is 4.", "reference": "4"}
{"input": "2 + 3 = ?", "output": "It is 6.", "reference": "5"}`;

type Result = EvaluatorRun["results"][number];

export function Try({ id }: { id: string }) {
  const [text, setText] = useState(EXAMPLE);
  const [run, setRun] = useState<EvaluatorRun>();
  const [error, setError] = useState<ApiError>();
  const start = async () => {
    try {
      const rows = text.split("\n").flatMap((line, i) => (line.trim() === "" ? [] : [parsed(line, i + 1)]));
      setRun(await api<EvaluatorRun>(`/v1/evaluators/${id}/run`, { method: "POST", body: { rows } }));
      setError(undefined);
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)));
    }
  };
  return (
    <Card title="Try it">
      <div class="stack">
        <JsonField
          label="Rows"
          value={text}
          onInput={setText}
          rows={4}
          isLines
          hint="One JSON object on each line, with input, output and reference."
        />
        <div class="row">
          <Button kind="primary" icon="play" onClick={start}>
            Run
          </Button>
        </div>
        {error && <ErrorBox error={error} />}
        {run && <Results run={run} />}
      </div>
    </Card>
  );
}

function parsed(line: string, number: number): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new Error(`Line ${number}: ${errorText(error)}`);
  }
}

const Results = ({ run: { results, summary } }: { run: EvaluatorRun }) => (
  <>
    <div class="grid stats">
      <Stat label="Mean" value={number(summary.mean)} />
      <Stat label="Passed" value={percent(summary.pass_rate)} />
      <Stat label="Without a score" value={summary.failed} />
    </div>
    <Table
      label="Results"
      rows={results}
      keyOf={({ index }) => String(index)}
      columns={[
        { title: "Row", cell: ({ index }) => index + 1, numeric: true },
        { title: "Score", cell: ({ score, label }) => label ?? number(score), numeric: true },
        { title: "Verdict", cell: (result) => <Verdict result={result} /> },
        { title: "Reason", cell: ({ reason, error }) => error ?? reason ?? NONE },
      ]}
    />
  </>
);

function Verdict({ result: { passed } }: { result: Result }) {
  if (passed === null) return <span>{NONE}</span>;
  return <Pill tone={passed ? "good" : "bad"}>{passed ? "Passed" : "Failed"}</Pill>;
}
