/** All pages of a list, one after the other. The first page stays live. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../lib/error_text.ts";
import { ApiError, api } from "./api.ts";
import { type Page, type ResourceOptions, useResource } from "./resource.ts";

const FIRST = 100;
const NEXT = 1_000;
const MOST = 50_000;

type Rest<T> = { path: string; items: readonly T[]; isDone: boolean; error: ApiError | undefined };

/** `path` with a query. `isDone` false: more pages are on their way. */
export function useWholeList<T extends { id: string }>(path: string, options: ResourceOptions = {}) {
  const first = useResource<Page<T>>(`${path}&limit=${FIRST}`, options);
  const [rest, setRest] = useState<Rest<T>>({ path: "", items: [], isDone: false, error: undefined });
  const [turn, setTurn] = useState(0);
  const isThere = first.data !== undefined;
  const wanted = first.data?.has_more === true;
  useEffect(() => {
    if (!isThere || !wanted) return;
    let isLeft = false;
    const show = (items: readonly T[], isDone: boolean, error?: ApiError) =>
      isLeft || setRest({ path, items, isDone, error });
    // Later runs push others off the first page, so that those of now are kept too.
    readRest<T>(
      path,
      first.data?.data ?? [],
      (items, isDone) => show(items, isDone),
      () => isLeft,
    ).catch((cause: unknown) =>
      show([], true, cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause))),
    );
    return () => {
      isLeft = true;
    };
  }, [path, isThere, wanted, turn]);
  const mine = rest.path === path ? rest : undefined;
  const head = first.data?.data ?? [];
  const known = new Set(head.map(({ id }) => id));
  const items = isThere
    ? [...head, ...(wanted ? (mine?.items ?? []) : []).filter(({ id }) => !known.has(id))]
    : undefined;
  const refresh = async () => {
    setTurn((now) => now + 1);
    await first.refresh();
  };
  return {
    data: items,
    error: first.error ?? mine?.error,
    isDone: isThere && (!wanted || (mine?.isDone ?? false)),
    refresh,
  };
}

async function readRest<T extends { id: string }>(
  path: string,
  head: readonly T[],
  show: (items: readonly T[], isDone: boolean) => void,
  isLeft: () => boolean,
) {
  const items = [...head];
  for (let after = head.at(-1)?.id; after !== undefined && items.length < MOST && !isLeft(); ) {
    const page = await api<Page<T>>(`${path}&limit=${NEXT}&after=${encodeURIComponent(after)}`);
    items.push(...page.data);
    after = page.has_more ? page.data.at(-1)?.id : undefined;
    show([...items], after === undefined);
  }
}
