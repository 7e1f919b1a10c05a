import type { AnnotationItem, AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { duration } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Messages } from "../../kit/content.tsx";
import { Empty, ErrorBox, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { now } from "../../kit/time.tsx";
import type { PageProps } from "../spec.ts";
import { type Draft, missing, type Queue } from "./draft.ts";
import { Fields } from "./fields.tsx";
import { Outputs } from "./outputs.tsx";
import { Progress } from "./progress.tsx";
import { type Desk, type DeskItem, useDesk } from "./use_desk.ts";

/** One item after the other, by the keyboard alone. */
export function Page({ params }: PageProps) {
  const path = `/v1/annotation_queues/${params["id"]}`;
  const queue = useResource<AnnotationQueue>(path);
  return (
    <Frame
      title={queue.data?.name ?? "Annotate"}
      above={[
        ["Annotate", "/annotate"],
        ["Queue", `/annotate/${params["id"]}`],
      ]}
      beside={queue.data?.items && <Progress of={queue.data.items} />}
    >
      <Loaded of={queue} skeleton={<Skeleton height={420} />}>
        {(loaded) => <Work queue={loaded} path={path} />}
      </Loaded>
    </Frame>
  );
}

function Work({ queue, path }: { queue: AnnotationQueue; path: string }) {
  const desk = useDesk(queue, path);
  if (desk.error) return <ErrorBox error={desk.error} retry={desk.next} />;
  if (desk.held === undefined) return <Skeleton height={420} />;
  if (desk.held === null)
    return (
      <Card>
        <Empty
          title="Nothing is left for you"
          action={
            <div class="row">
              <LinkButton href={`/annotate/${queue.id}`}>Open the queue</LinkButton>
              <Button onClick={desk.next}>Check again</Button>
            </div>
          }
        >
          Every item is done, skipped by you, or reserved for another person.
        </Empty>
      </Card>
    );
  return <Item key={desk.held.item.id} item={desk.held.item} desk={desk} queue={queue} />;
}

type ItemProps = { item: AnnotationItem; desk: Desk; queue: AnnotationQueue };

function Item({ item, desk, queue }: ItemProps) {
  const { draft, act } = desk;
  return (
    <div class="grid">
      {queue.instructions !== null && <p class="muted annotate-instructions">{queue.instructions}</p>}
      <Card title="Input" side={desk.held && <Lease held={desk.held} renew={desk.next} />}>
        <Messages of={item.input} by="user" />
      </Card>
      <Outputs
        outputs={item.outputs}
        mode={queue.mode}
        preferred={draft.preferred}
        prefer={(value) => act({ type: "prefer", value })}
      />
      {item.reference !== null && (
        <Card title="Right answer">
          <pre class="text">{item.reference}</pre>
        </Card>
      )}
      {(queue.labels.length > 0 || queue.mode === "single") && (
        <Card title="Labels">
          <Fields queue={queue} item={item} draft={draft} act={act} correct={desk.correct} />
        </Card>
      )}
      <Keys queue={queue} draft={draft} desk={desk} />
    </div>
  );
}

/** The keys, which are buttons too. */
function Keys({ queue, draft, desk }: { queue: Queue; draft: Draft; desk: Desk }) {
  const { act, canUndo } = desk;
  const key = (text: string) => <kbd>{text}</kbd>;
  const lack = missing(queue, draft);
  const hasSave = queue.mode === "single" || queue.labels.length > 0;
  return (
    <div class="annotate-keys" role="toolbar" aria-label="Actions">
      {queue.mode === "pairwise" && (
        <>
          <Button onClick={() => act({ type: "prefer", value: "first" })}>First {key("← 1")}</Button>
          <Button onClick={() => act({ type: "prefer", value: "second" })}>Second {key("→ 2")}</Button>
          <Button onClick={() => act({ type: "prefer", value: "tie" })}>Tie {key("0")}</Button>
        </>
      )}
      {hasSave && (
        <Button kind="primary" disabled={lack !== undefined} onClick={() => act({ type: "save" })}>
          Save {key("Enter")}
        </Button>
      )}
      <Button kind="quiet" onClick={() => act({ type: "skip" })}>
        Skip {key("s")}
      </Button>
      <Button kind="quiet" disabled={!canUndo} onClick={() => act({ type: "undo" })}>
        Undo {key("u")}
      </Button>
      {hasSave && lack !== undefined && <small class="muted">{lack}</small>}
    </div>
  );
}

/** How long the item is reserved. An item that was taken back has no reservation. */
function Lease({ held: { until }, renew }: { held: DeskItem; renew: () => Promise<void> }) {
  if (until === undefined) return <small class="muted">Taken back: save it again to change it</small>;
  const seconds = Math.ceil((until - now.value) / 1000);
  if (seconds > 0) return <small class="muted n">Reserved for you for {duration(seconds)}</small>;
  return (
    <>
      <small class="warn">The reservation has ended</small>
      <Button kind="quiet" onClick={renew}>
        Reserve again
      </Button>
    </>
  );
}
