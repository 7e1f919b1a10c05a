/** The columns as they are shared. Pure but for the state of the board. */
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Board } from "./board.ts";
import { type Column, deploymentOf, keyOf } from "./columns.ts";
import { bodyOf, toolsOf } from "./request.ts";
import { messagesOf } from "./sent.ts";
import { modelOf } from "./serve.ts";
import type { Shared } from "./share.tsx";
import { branchesOf, pathOf, type Tree } from "./tree.ts";

type Titles = (column: Column, deployment: Deployment | undefined) => string;

export function sharedOf(
  board: Board,
  columns: readonly Column[],
  deployments: readonly Deployment[],
  titleOf: Titles,
): Shared[] {
  const fields = board.fields.value;
  const { system } = fields;
  const shown = columns.map((column) => ({ column, key: keyOf(column), tree: board.treeOf(keyOf(column)) }));
  return shown.flatMap(({ column, key, tree }): Shared[] => {
    const path = pathOf(tree);
    if (path.length === 0) return [];
    const deployment = deploymentOf(column, deployments);
    const model = deployment?.name ?? modelOf(column, deployments);
    const others = [...branchTexts(tree), ...shown.flatMap((each) => (each.key === key ? [] : lastText(each.tree)))];
    return [
      {
        key,
        title: titleOf(column, deployment),
        talk: { path, system, tools: toolsOf(fields), others },
        request: { model, ...bodyOf(fields, column, messagesOf(path, system)) },
      },
    ];
  });
}

/** The newest answers first. */
function branchTexts(tree: Tree): string[] {
  const last = pathOf(tree).findLast(({ role }) => role === "assistant");
  const { ids } = branchesOf(tree, last?.id ?? "");
  return ids.toReversed().flatMap((id) => textOf(tree, id));
}

const lastText = (tree: Tree): string[] =>
  textOf(tree, pathOf(tree).findLast(({ role }) => role === "assistant")?.id ?? "");

function textOf(tree: Tree, id: string): string[] {
  const turn = tree.turns.get(id);
  return turn?.role === "assistant" && turn.answer.text !== "" ? [turn.answer.text] : [];
}
