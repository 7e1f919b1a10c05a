/** The item on the annotator's desk: reserved, changed by keys and buttons, sent, and followed by the next one. */
import { useEffect, useRef, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { AnnotationItem, AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { load } from "../../data/resource.ts";
import { attempt, toast } from "../../shell/toasts.tsx";
import { type Action, actionOf, applied, type Draft, draftOf, EMPTY, missing, savesAtOnce } from "./draft.ts";

/** `until`: end of the reservation; undefined for an item that was taken back. */
export type DeskItem = { item: AnnotationItem; until: number | undefined };
type Reservation = { item: AnnotationItem | null; lease_seconds: number | null };
const JUMP_MS = 1_000; // after `g` the next key belongs to the shell

export type Desk = ReturnType<typeof useDesk>;

export function useDesk(queue: AnnotationQueue, path: string) {
  const [held, setHeld] = useState<DeskItem | null | undefined>(undefined);
  const [draft, setDraft] = useState<Draft>(EMPTY);
  const [error, setError] = useState<ApiError | undefined>(undefined);
  const [last, setLast] = useState<AnnotationItem | undefined>(undefined);
  const isBusy = useRef(false);

  const take = (item: AnnotationItem, until: number | undefined) => {
    setHeld({ item, until });
    setDraft(draftOf(item));
  };
  const next = async () => {
    try {
      const { item, lease_seconds } = await api<Reservation>(`${path}/next`, { method: "POST" });
      setError(undefined);
      if (item) take(item, Date.now() + (lease_seconds ?? 0) * 1000);
      else setHeld(null);
    } catch (caught) {
      setError(caught instanceof ApiError ? caught : new ApiError(0, null, errorText(caught)));
    }
  };
  /** Sends the annotation or the skip, then takes the next item. */
  const send = async (what: "annotations" | "skip", body: object) => {
    if (!held || isBusy.current) return;
    isBusy.current = true;
    const done = await attempt(() =>
      api<AnnotationItem>(`${path}/items/${held.item.id}/${what}`, { method: "POST", body }),
    );
    if (done) {
      setLast(done);
      await Promise.all([next(), load(path)]);
    }
    isBusy.current = false;
  };
  const save = async (draft: Draft) => {
    const lack = missing(queue, draft);
    if (lack !== undefined) return toast(lack, "bad");
    const { preferred, labels, correction } = draft;
    const fixed = correction.trim() === "" ? {} : { correction };
    await send("annotations", { labels, ...(preferred === null ? {} : { preferred }), ...fixed });
  };
  const undo = () => {
    if (!last) return;
    if (last.status === "pending" || last.status === "skipped") take(last, undefined);
    else toast("That item is complete: it cannot change any more.", "bad");
    setLast(undefined);
  };
  const act = async (action: Action) => {
    if (action.type === "save") return await save(draft);
    if (action.type === "skip") return await send("skip", {});
    if (action.type === "undo") return undo();
    const changed = applied(draft, action, queue);
    setDraft(changed);
    if (action.type !== "move" && savesAtOnce(queue)) await save(changed);
  };

  const latest = useRef({ act, draft, held });
  latest.current = { act, draft, held };
  useEffect(() => void next(), [path]);
  useEffect(() => {
    let jumpedAt = Number.NEGATIVE_INFINITY;
    const onKey = (event: KeyboardEvent) => {
      const { act: run, draft: now, held: current } = latest.current;
      if (!current || document.querySelector("dialog[open]") || event.altKey || event.metaKey) return;
      const isSave = event.key === "Enter" && event.ctrlKey;
      if (!isSave && (event.ctrlKey || isControl(event))) return;
      if (event.key === "g") jumpedAt = performance.now();
      if (performance.now() - jumpedAt < JUMP_MS) return;
      const action = isSave ? ({ type: "save" } as const) : actionOf(event.key, queue, now);
      if (!action) return;
      event.preventDefault();
      void run(action);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [queue]);

  const correct = (correction: string) => setDraft((before) => ({ ...before, correction }));
  return { held, draft, error, act, next, correct, canUndo: last !== undefined };
}

/** Keys that an element uses itself: text fields take all of them, links and buttons take Enter. */
function isControl({ target, key }: KeyboardEvent): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return true;
  return key === "Enter" && /^(A|BUTTON|SUMMARY)$/.test(target.tagName);
}
