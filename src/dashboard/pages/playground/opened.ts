/** The conversation with which the page opens: of a handover, of a link, or the one that was left for another page. */
import { session } from "../../data/session.ts";
import { navigate, place, queryOf } from "../../shell/router.ts";
import { fieldsOfAddress } from "./address.ts";
import { type Board, newBoard, newId } from "./board.ts";
import { takeHandover } from "./handover.ts";
import { conversationOf } from "./sent.ts";
import { EMPTY_TREE, type Tree } from "./tree.ts";

/** In memory only: what was said needs no storage of the browser. */
let left: { board: Board; key: string; address: string } | undefined;
let address = "";

const sessionKey = () => (session.value.is === "in" ? session.value.session.key.id : "");

/** Called while the page is shown. */
export const noteAddress = () => {
  if (place.value.path === "/playground") address = place.value.query.toString();
};

export function keepOpen(board: Board) {
  left = { board, key: sessionKey(), address };
}

/** `given`: the conversation of a handover, for every column. */
export function openBoard(): { board: Board; given: Tree } {
  const handover = takeHandover();
  const now = place.value.query.toString();
  if (!handover && left?.key === sessionKey() && (now === "" || now === left.address)) {
    if (now === "" && left.address !== "") navigate(`/playground?${left.address}`, { replace: true });
    return { board: left.board, given: EMPTY_TREE };
  }
  left?.board.stop();
  left = undefined;
  const fields = fieldsOfAddress();
  const { system, tree } = conversationOf(handover?.messages ?? [], newId);
  const draft = { text: handover?.prompt ?? queryOf("prompt") ?? "", images: [] };
  const tools = handover?.tools?.length ? JSON.stringify(handover.tools, null, 2) : fields.tools;
  const prompt = system || (handover?.system ?? fields.system);
  return { board: newBoard({ fields: { ...fields, tools, system: prompt }, draft }), given: tree };
}
