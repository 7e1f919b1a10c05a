import { count } from "../../data/format.ts";
import { useList } from "../../data/resource.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import type { Conversation } from "./types.ts";

export function Page() {
  const list = useList<Conversation>("/v1/traces/conversations?limit=50", { everyMs: 10_000 });
  return (
    <Frame
      title="Conversations"
      purpose="Requests that belong together, in their order."
      above={[["Traces", "/traces"]]}
    >
      <Card>
        <Loaded of={{ ...list, data: list.items }}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="No conversation yet" action={<LinkButton href="/traces">Open the traces</LinkButton>}>
                Send metadata.conversation_id or the header x-conversation-id with each request. The deployment must
                capture metadata or full.
              </Empty>
            ) : (
              <Table
                label="Conversations"
                rows={rows}
                keyOf={({ id }) => id}
                href={({ id }) => `/conversations/${encodeURIComponent(id)}`}
                columns={[
                  { title: "Conversation", cell: ({ id }) => id },
                  { title: "Requests", cell: ({ trace_count }) => count(trace_count), numeric: true },
                  { title: "Tokens in", cell: (each) => count(each.prompt_tokens), numeric: true, wide: true },
                  { title: "Tokens out", cell: (each) => count(each.completion_tokens), numeric: true, wide: true },
                  { title: "Last", cell: ({ last_at }) => <Time at={last_at} /> },
                ]}
              />
            )
          }
        </Loaded>
        <More list={list} />
      </Card>
    </Frame>
  );
}
