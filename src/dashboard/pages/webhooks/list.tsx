import type { WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import { plural } from "../../data/format.ts";
import { useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { Feed } from "./feed.tsx";
import { NewEndpoint } from "./new_endpoint.tsx";
import { Strip } from "./strip.tsx";
import { stateOf } from "./words.ts";

const TABS = [
  ["endpoints", "Endpoints"],
  ["feed", "Live events"],
] as const;

export function Page() {
  const tab = tabOf("endpoints");
  return (
    <Frame
      title="Webhooks"
      purpose="Events of this workspace, sent to your own servers and signed."
      actions={
        may("account", false) && (
          <Button kind="primary" icon="plus" onClick={() => setQuery({ new: "1" })}>
            New endpoint
          </Button>
        )
      }
    >
      <Tabs label="Parts of webhooks" tabs={TABS} />
      {tab === "feed" ? <Feed /> : <Endpoints />}
      {queryOf("new") === "1" && <NewEndpoint onClose={() => setQuery({ new: undefined })} />}
    </Frame>
  );
}

/** Each strip is a request of its own. */
const MOST_STRIPS = 20;

function Endpoints() {
  const list = useList<WebhookEndpoint>("/v1/webhooks?limit=50", { events: ["webhook."], everyMs: 5_000 });
  return (
    <Card>
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty
              title="No endpoint yet"
              command="verk webhooks listen --forward http://localhost:3000/hook"
              action={may("account", false) && <Button onClick={() => setQuery({ new: "1" })}>New endpoint</Button>}
            >
              An endpoint is an https address that receives events. Without one, this command forwards them to your own
              machine:
            </Empty>
          ) : (
            <Table
              label="Endpoints"
              rows={rows}
              keyOf={({ id }) => id}
              href={({ id }) => `/webhooks/${id}`}
              columns={[
                { title: "Address", cell: ({ url }) => <span class="webhooks-url">{url}</span> },
                { title: "State", cell: (row) => <State {...stateOf(row)} /> },
                {
                  title: "Newest deliveries",
                  cell: ({ id }) => (rows.length > MOST_STRIPS ? "" : <Strip id={id} />),
                  wide: true,
                },
                { title: "Events", cell: ({ event_types: types }) => typesOf(types), wide: true },
                { title: "About", cell: ({ description }) => description, wide: true },
                { title: "Created", cell: ({ created_at: at }) => <Time at={at} />, wide: true },
              ]}
            />
          )
        }
      </Loaded>
      <More list={list} />
    </Card>
  );
}

const typesOf = (types: readonly string[]): string => (types.length === 0 ? "all" : plural(types.length, "type"));
