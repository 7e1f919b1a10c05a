/** Conversations with one model or several. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Agent } from "../../../resources/serving/agents/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import { type Page as ListPage, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { ErrorBox, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { type Board, NO_DRAFT, newBoard } from "./board.ts";
import { Chat } from "./chat.tsx";
import { type Column, columnsOf, firstColumns, isActive, keyOf, namedColumns } from "./columns.ts";
import { goBack, keepOpen, leaveShown, openBoard } from "./opened.ts";
import { EMPTY_TREE } from "./tree.ts";

export function Page() {
  const [opened, setOpened] = useState(openBoard);
  const shown = useRef(opened.board);
  shown.current = opened.board;
  useEffect(() => () => keepOpen(shown.current), []);
  const show = (board: Board) => {
    setOpened({ board, given: EMPTY_TREE });
    return board;
  };
  const onBegin = () => {
    leaveShown(opened.board);
    return show(newBoard({ fields: opened.board.fields.value, draft: NO_DRAFT }));
  };
  const onBack = () => show(goBack(opened.board));
  const deployments = useResource<ListPage<Deployment>>("/v1/deployments?limit=100", {
    events: ["deployment."],
    everyMs: 5_000,
  });
  const agents = useResource<ListPage<Agent>>(may("training") ? "/v1/agents?latest=true&limit=100" : null);
  const active = deployments.data?.data.filter(isActive);
  const isBare = active?.length === 0 && queryOf("cols") === undefined && queryOf("models") === undefined;
  const models = useResource<ListPage<Model>>(isBare ? "/v1/models?registry=true&limit=100" : null);
  const isReady = (!may("training") || agents.data || agents.error) && (!isBare || models.data || models.error);
  if (deployments.error && !deployments.data)
    return (
      <Frame title="Playground">
        <ErrorBox error={deployments.error} retry={deployments.refresh} />
      </Frame>
    );
  return (
    <Loaded of={{ ...deployments, data: isReady ? deployments.data : undefined }} skeleton={<Waiting />}>
      {({ data }) => {
        const columns = shownColumns(data, agents.data?.data ?? [], models.data?.data ?? []);
        const shared = { deployments: data, agents: agents.data?.data ?? [], onBegin, onBack };
        return <Shown {...opened} {...shared} columns={columns} />;
      }}
    </Loaded>
  );
}

const Waiting = () => (
  <Frame title="Playground">
    <Skeleton height={320} />
  </Frame>
);

type ShownProps = ReturnType<typeof openBoard> & {
  columns: readonly Column[];
  deployments: readonly Deployment[];
  agents: readonly Agent[];
  onBegin: () => Board;
  onBack: () => void;
};

/** The address names the columns, so that a link and a return show the same. */
function Shown({ board, given, ...rest }: ShownProps) {
  const cols = rest.columns.map(keyOf).join(",");
  const [isBegun, setBegun] = useState(false);
  useEffect(() => {
    if (queryOf("cols") === undefined && cols !== "") setQuery({ cols, models: undefined });
  }, [cols]);
  if (!isBegun) {
    board.begin(rest.columns.map(keyOf), given);
    setBegun(true);
  }
  return <Chat board={board} {...rest} />;
}

/** Without columns in the address: a deployment, or a model of this server, which the first message starts. */
function shownColumns(
  deployments: readonly Deployment[],
  agents: readonly Agent[],
  models: readonly Model[],
): readonly Column[] {
  const columns = queryOf("cols");
  if (columns !== undefined) return columnsOf(columns);
  const names = queryOf("models");
  if (names !== undefined) return namedColumns(names, deployments, agents);
  const first = firstColumns(deployments);
  const base = models.find(({ type, job_id: job, status }) => type === "model" && job === null && status === "ready");
  return first.length > 0 || !base ? first : [{ kind: "model", name: base.name }];
}
