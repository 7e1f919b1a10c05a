import { useState } from "preact/hooks";
import type { Dataset } from "../../../resources/data/datasets/schema.ts";
import type { AnnotationItem, AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { count, duration, plural, words } from "../../data/format.ts";
import { lastLine } from "../../data/messages.ts";
import { areAnswered, deleteResource, reload, useList, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { navigate, queryOf, setQuery } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import type { PageProps } from "../spec.ts";
import { AddRows } from "./add_rows.tsx";
import { Agreement } from "./agreement.tsx";
import { Progress } from "./progress.tsx";
import { DatasetName, SetTarget, TrainOnThese, useTarget } from "./target.tsx";

export function Page({ params }: PageProps) {
  const path = `/v1/annotation_queues/${params["id"]}`;
  const queue = useResource<AnnotationQueue>(path, { events: ["annotation_"] });
  const items = useList<AnnotationItem>(`${path}/items?limit=50`, { events: ["annotation_"] });
  const target = useTarget(queue.data?.dataset_id ?? null);
  const data = areAnswered(queue, target, { ...items, data: items.items }) ? queue.data : undefined;
  return (
    <Frame
      title={data?.name ?? "Annotation queue"}
      above={[["Annotate", "/annotate"]]}
      purpose={data?.mode === "pairwise" ? "People choose between two answers." : "People label or correct one answer."}
      actions={data && may("training", false) && <Actions queue={data} target={target.data} path={path} />}
    >
      <Loaded of={{ ...queue, data }} skeleton={<Skeleton height={420} />}>
        {(loaded) => (
          <div class="grid two">
            <div class="grid">
              <Card title="Progress">{loaded.items && <Progress of={loaded.items} />}</Card>
              <Card title="Items">
                <Loaded of={{ ...items, data: items.items }}>{(rows) => <Items rows={rows} queue={loaded} />}</Loaded>
                <More list={items} />
              </Card>
            </div>
            <div class="grid">
              <About queue={loaded} />
              <Agreement path={path} />
            </div>
          </div>
        )}
      </Loaded>
    </Frame>
  );
}

const addRows = () => setQuery({ add: "1" });

type ActionsProps = { queue: AnnotationQueue; target: Dataset | undefined; path: string };

function Actions({ queue, target, path }: ActionsProps) {
  const [isOpen, setIsOpen] = useState<"delete" | "target" | undefined>(undefined);
  const close = () => setIsOpen(undefined);
  const remove = async () => {
    if ((await attempt(() => deleteResource(path), "Deleted")) === undefined) return;
    await reload("/v1/annotation_queues?");
    navigate("/annotate");
  };
  return (
    <>
      <LinkButton kind="primary" href={`/annotate/${queue.id}/work`}>
        Annotate items
      </LinkButton>
      {target && <TrainOnThese queue={queue} rows={target} />}
      {queue.dataset_id === null && <Button onClick={() => setIsOpen("target")}>Set a dataset</Button>}
      <Button onClick={addRows}>Add rows</Button>
      <Button kind="danger" onClick={() => setIsOpen("delete")}>
        Delete
      </Button>
      {queryOf("add") === "1" && <AddRows path={path} onClose={() => setQuery({ add: undefined })} />}
      {isOpen === "target" && <SetTarget queue={queue} path={path} onClose={close} />}
      {isOpen === "delete" && (
        <Confirm title="Delete this queue?" verb="Delete" onConfirm={remove} onClose={close}>
          Its items and annotations are deleted too. Rows that were made from them stay.
        </Confirm>
      )}
    </>
  );
}

const TONES = { pending: "wait", appending: "busy", completed: "good", skipped: "idle" } as const;
const CHOSEN = { first: "First answer", second: "Second answer", tie: "Tie" } as const;

const Items = ({ rows, queue }: { rows: readonly AnnotationItem[]; queue: AnnotationQueue }) =>
  rows.length === 0 ? (
    <Empty title="No item yet" action={may("training", false) && <Button onClick={addRows}>Add rows</Button>}>
      Add the rows of a dataset, send answers from a trace or the playground, or send items by the API.
    </Empty>
  ) : (
    <Table
      label="Items"
      rows={rows}
      keyOf={({ id }) => id}
      columns={[
        { title: "Input", cell: ({ input }) => <span class="annotate-line">{lastLine(input)}</span> },
        { title: "State", cell: ({ status }) => <Pill tone={TONES[status]}>{words(status)}</Pill> },
        { title: "Result", cell: (item) => resultOf(item) },
        {
          title: "People",
          cell: ({ annotations }) =>
            `${count(annotations.filter(({ skipped }) => !skipped).length)} of ${queue.annotators_per_item}`,
          numeric: true,
          wide: true,
        },
        { title: "Changed", cell: ({ updated_at }) => <Time at={updated_at} />, wide: true },
      ]}
    />
  );

function resultOf({ outcome, annotations, error }: AnnotationItem) {
  if (error) return <span class="bad">{error.message}</span>;
  if (outcome?.preferred) return CHOSEN[outcome.preferred];
  if (outcome?.correction) return "Corrected";
  const labels = annotations.flatMap(({ labels: values }) => Object.entries(values));
  const shown = labels.map(([name, value]) => `${name} ${Array.isArray(value) ? plural(value.length, "mark") : value}`);
  return <span class="annotate-line">{shown.join(", ")}</span>;
}

function About({ queue }: { queue: AnnotationQueue }) {
  const rows = [
    ["People for each item", count(queue.annotators_per_item)] as const,
    ["Reserved for", duration(queue.lease_seconds)] as const,
    ["Labels", queue.labels.map(({ name, type }) => `${name} (${type})`).join(", ") || "None"] as const,
    queue.dataset_id !== null && (["Rows go to", <DatasetName key="d" id={queue.dataset_id} />] as const),
    ["Created", <Time key="m" at={queue.created_at} />] as const,
  ];
  return (
    <Card title="About">
      <div class="stack">
        {queue.instructions !== null && <p class="annotate-instructions">{queue.instructions}</p>}
        <Facts rows={rows.filter((row) => row !== false)} />
      </div>
    </Card>
  );
}
