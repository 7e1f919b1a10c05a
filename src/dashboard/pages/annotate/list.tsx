import type { AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { plural } from "../../data/format.ts";
import { useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { NewQueue } from "./new_queue.tsx";

export const MODES = { pairwise: "Choose between two", single: "Label one answer" } as const;

export function Page() {
  const list = useList<AnnotationQueue>("/v1/annotation_queues?limit=50", { events: ["annotation_queue."] });
  const open = () => setQuery({ new: "1" });
  return (
    <Frame
      title="Annotate"
      purpose="People compare, label and correct answers. Their work becomes rows to train on."
      actions={
        may("training", false) && (
          <Button kind="primary" icon="plus" onClick={open}>
            New queue
          </Button>
        )
      }
    >
      <Card>
        <Loaded of={{ ...list, data: list.items }}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="No queue yet" action={may("training", false) && <Button onClick={open}>New queue</Button>}>
                A queue hands out answers to people, one at a time.
              </Empty>
            ) : (
              <Table
                label="Annotation queues"
                rows={rows}
                keyOf={({ id }) => id}
                href={({ id }) => `/annotate/${id}`}
                columns={[
                  { title: "Name", cell: ({ name }) => name },
                  { title: "Work", cell: ({ mode }) => MODES[mode] },
                  {
                    title: "Labels",
                    cell: ({ labels }) => labels.map(({ name }) => name).join(", ") || "None",
                    wide: true,
                  },
                  {
                    title: "People for each item",
                    cell: ({ annotators_per_item: n }) => plural(n, "person", "people"),
                    wide: true,
                  },
                  { title: "Created", cell: ({ created_at }) => <Time at={created_at} />, wide: true },
                  { title: "", cell: ({ id }) => <LinkButton href={`/annotate/${id}/work`}>Annotate</LinkButton> },
                ]}
              />
            )
          }
        </Loaded>
        <More list={list} />
      </Card>
      {queryOf("new") === "1" && <NewQueue onClose={() => setQuery({ new: undefined })} />}
    </Frame>
  );
}
