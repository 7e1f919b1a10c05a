/** The conversation with which the page opens: of a handover, of a link, or the one that was left for another page. */
import { signal } from "@preact/signals";
import { session } from "../../data/session.ts";
import { navigate, place, queryOf } from "../../shell/router.ts";
import { fieldsOfAddress } from "./address.ts";
import { type Board, newBoard, newId } from "./board.ts";
import { takeHandover } from "./handover.ts";
import { conversationOf } from "./sent.ts";
import { EMPTY_TREE, type Tree } from "./tree.ts";

/** In memory only: what was said needs no storage of the browser. */
type Left = { board: Board; key: string; address: string };

let left: Left | undefined;
let address = "";
/** Conversations that another one replaced before they were saved, the newest last. */
const earlier = signal<readonly Left[]>([]);
const MOST_EARLIER = 5;

const sessionKey = () => (session.value.is === "in" ? session.value.session.key.id : "");

/** Called while the page is shown. */
export const noteAddress = () => {
  if (place.value.path === "/playground") address = place.value.query.toString();
};

export function keepOpen(board: Board) {
  left = { board, key: sessionKey(), address };
}

/** True if a conversation waits that this key can go back to. */
export const hasEarlier = (): boolean => earlier.value.some(({ key }) => key === sessionKey());

/** Another conversation takes the place of this one, which can be opened again until the page is loaded anew. */
export function leave({ board, ...rest }: Left) {
  board.stop();
  if (board.isUnsaved()) earlier.value = [...earlier.value, { board, ...rest }].slice(-MOST_EARLIER);
}

export const leaveShown = (board: Board) => leave({ board, key: sessionKey(), address });

/** Opens the newest conversation that was left. The one that is shown is kept in its stead. */
export function goBack(shown: Board): Board {
  const mine = earlier.value.filter(({ key }) => key === sessionKey());
  const last = mine.pop();
  if (!last) return shown;
  earlier.value = mine;
  leaveShown(shown);
  if (earlier.value.length > mine.length) earlier.value = [...earlier.value.slice(-1), ...mine];
  navigate(`/playground${last.address === "" ? "" : `?${last.address}`}`, { replace: true });
  return last.board;
}

/** `given`: the conversation of a handover, for every column. */
export function openBoard(): { board: Board; given: Tree } {
  const handover = takeHandover();
  const now = place.value.query.toString();
  if (!handover && left?.key === sessionKey() && (now === "" || now === left.address)) {
    if (now === "" && left.address !== "") navigate(`/playground?${left.address}`, { replace: true });
    return { board: left.board, given: EMPTY_TREE };
  }
  if (left) leave(left);
  left = undefined;
  const fields = fieldsOfAddress();
  const { system, tree } = conversationOf(handover?.messages ?? [], newId);
  const draft = { text: handover?.prompt ?? queryOf("prompt") ?? "", images: [] };
  const tools = handover?.tools?.length ? JSON.stringify(handover.tools, null, 2) : fields.tools;
  const prompt = system || (handover?.system ?? fields.system);
  return { board: newBoard({ fields: { ...fields, tools, system: prompt }, draft }), given: tree };
}
