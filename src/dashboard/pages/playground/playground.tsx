import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { type Page as ListPage, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Copy } from "../../kit/copy.tsx";
import { CheckField } from "../../kit/field.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import { type Answer, ask } from "./answer.ts";
import { AnswerColumn } from "./column.tsx";
import { type Column, columnsOf, deploymentOf, firstColumns, keyOf, namedColumns } from "./columns.ts";
import { Picker } from "./picker.tsx";
import { bodyOf, type Fields, fieldsOfAddress, writeAddress, wrongOf } from "./request.ts";
import { Settings } from "./settings.tsx";

const WRITE_MS = 400;

export function Page() {
  const deployments = useResource<ListPage<Deployment>>("/v1/deployments?limit=100", {
    events: ["deployment."],
    everyMs: 5_000,
  });
  return (
    <Frame
      title="Playground"
      purpose="One prompt for several models at once. The address keeps everything, so a link shows the same."
    >
      <Loaded of={deployments} skeleton={<Skeleton height={320} />}>
        {({ data }) => <Board deployments={data} refresh={deployments.refresh} />}
      </Loaded>
    </Frame>
  );
}

function Board({ deployments, refresh }: { deployments: readonly Deployment[]; refresh: () => Promise<void> }) {
  const fields = useSignal<Fields>(fieldsOfAddress());
  const answers = useSignal<ReadonlyMap<string, Answer>>(new Map());
  const running = useSignal(0);
  const isPicking = useSignal(false);
  const stop = useRef<AbortController>(null);
  useEffect(() => () => stop.current?.abort(), []);
  useEffect(() => {
    const timer = setTimeout(() => writeAddress(fields.value), WRITE_MS);
    return () => clearTimeout(timer);
  }, [fields.value]);

  const columnsText = queryOf("cols");
  const names = queryOf("models");
  const first = names === undefined ? firstColumns(deployments) : namedColumns(names, deployments);
  const columns = columnsText === undefined ? first : columnsOf(columnsText);
  const show = (next: readonly Column[]) => setQuery({ cols: next.map(keyOf).join(",") || ",", models: undefined });
  const isColoured = queryOf("colour") !== "off";
  const wrong = wrongOf(fields.value);
  const ready = columns.flatMap((column) => {
    const deployment = deploymentOf(column, deployments);
    return deployment ? [{ key: keyOf(column), id: deployment.id }] : [];
  });

  const run = async () => {
    if (fields.value.prompt === "" || Object.keys(wrong).length > 0) return toast("Write a prompt first.", "bad");
    if (!writeAddress(fields.value)) toast("The text is too long for a link: this address does not keep it.");
    stop.current?.abort();
    const aborting = new AbortController();
    stop.current = aborting;
    answers.value = new Map();
    running.value = ready.length;
    const body = bodyOf(fields.value);
    const one = async ({ key, id }: { key: string; id: string }) => {
      const onChange = (answer: Answer) => {
        if (stop.current === aborting) answers.value = new Map(answers.value).set(key, answer);
      };
      await ask(id, body, { signal: aborting.signal, onChange });
      if (stop.current === aborting) running.value -= 1;
    };
    await Promise.all(ready.map(one));
  };

  return (
    <div class="grid">
      <Card class="playground-form">
        <Settings fields={fields.value} wrong={wrong} onChange={(next) => (fields.value = next)} onRun={run} />
        <div class="row">
          {running.value > 0 ? (
            <Button kind="primary" onClick={() => stop.current?.abort()}>
              Stop
            </Button>
          ) : (
            <Button kind="primary" icon="play" onClick={() => void run()} disabled={ready.length === 0}>
              Run
            </Button>
          )}
          <Button icon="plus" onClick={() => (isPicking.value = true)}>
            Add column
          </Button>
          <span class="fill" />
          {isColoured && <Legend />}
          <CheckField
            label="Colour by probability"
            checked={isColoured}
            onChange={(on) => setQuery({ colour: on ? undefined : "off" })}
          />
          <Copy text={location.href} label="Copy a link to this page" />
        </div>
      </Card>
      {columns.length === 0 ? (
        <Card>
          <Empty
            title="No column yet"
            command="verk deploy verk-tiny --name base"
            action={<Button onClick={() => (isPicking.value = true)}>Choose a model</Button>}
          >
            Add a deployment, a base model or a checkpoint of a run.
          </Empty>
        </Card>
      ) : (
        <div class="playground-columns">
          {columns.map((column) => (
            <AnswerColumn
              key={keyOf(column)}
              column={column}
              deployment={deploymentOf(column, deployments)}
              answer={answers.value.get(keyOf(column))}
              isColoured={isColoured}
              onRemove={() => show(columns.filter((each) => each !== column))}
              onDeployed={refresh}
            />
          ))}
        </div>
      )}
      {isPicking.value && (
        <Picker
          deployments={deployments}
          onClose={() => (isPicking.value = false)}
          onPick={(column) => {
            isPicking.value = false;
            show([...columns, column]);
          }}
        />
      )}
    </div>
  );
}

const Legend = () => (
  <small class="playground-legend">
    <span class="playground-token likely">under 90 %</span>
    <span class="playground-token unsure">under 50 %</span>
    <span class="playground-token rare">under 15 %</span>
  </small>
);
