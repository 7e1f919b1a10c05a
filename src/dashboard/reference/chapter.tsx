/** One chapter of the reference: its routes, loaded when the chapter is opened. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../lib/error_text.ts";
import type { Chapter as Listed, ReferenceIndex } from "../../resources/server/docs/chapters.ts";
import { Button } from "../kit/button.tsx";
import { type Contract, openContract, operationsOf, type Operation as Route } from "./contract.ts";
import { createdBy, variableOf } from "./example.ts";
import { Operation } from "./operation.tsx";

export async function load<T>(address: string): Promise<T> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  return (await response.json()) as T;
}

type State = { name: string; operations?: readonly Route[]; failure?: string };

/** `onShown`: called each time when the routes of another chapter are in the page. */
export function Chapter({ of, index, onShown }: { of: Listed; index: ReferenceIndex; onShown: () => void }) {
  const [tries, setTries] = useState(0);
  const state = useChapter(of.name, tries);
  const Heading = of === index.chapters[0] ? "h2" : "h1"; // the first chapter stands below the title of the page
  useEffect(() => {
    if (state.operations) onShown();
  }, [state]);
  return (
    <section aria-busy={!state.operations && state.failure === undefined}>
      <Heading id={of.name} class="reference-chapter">
        {of.title}
      </Heading>
      {state.failure !== undefined && (
        <div class="card" role="alert">
          <p>This chapter could not be loaded: {state.failure}</p>
          <Button onClick={() => setTries(tries + 1)}>Retry</Button>
        </div>
      )}
      {state.operations?.map((each) => (
        <Operation key={each.id} of={each} saves={savedBy(each, index)} />
      ))}
      {!state.operations &&
        state.failure === undefined &&
        of.operations.map(({ id, summary }) => (
          <article key={id} id={id} class="reference-waiting">
            <h3>{summary}</h3>
          </article>
        ))}
      <Neighbours of={of} chapters={index.chapters} />
    </section>
  );
}

function useChapter(name: string, tries: number): State {
  const [state, setState] = useState<State>({ name });
  useEffect(() => {
    let isCurrent = true;
    setState({ name });
    load<Contract>(`/docs/chapters/${name}`)
      .then((contract) => {
        if (!isCurrent) return;
        openContract(contract);
        setState({ name, operations: operationsOf(contract) });
      })
      .catch((error: unknown) => isCurrent && setState({ name, failure: errorText(error) }));
    return () => {
      isCurrent = false;
    };
  }, [name, tries]);
  return state.name === name ? state : { name };
}

/** Not every route that could save an id has others that use it. */
function savedBy(operation: Route, { chapters }: ReferenceIndex): string | undefined {
  const variable = createdBy(operation);
  if (variable === undefined) return undefined;
  const isUsed = chapters.some(({ operations }) =>
    operations.some(({ path }) =>
      [...path.matchAll(/\{(\w+)\}/g)].some(([, name = ""]) => variableOf(path, name) === variable),
    ),
  );
  return isUsed ? variable : undefined;
}

function Neighbours({ of, chapters }: { of: Listed; chapters: readonly Listed[] }) {
  const at = chapters.findIndex(({ name }) => name === of.name);
  const [before, after] = [chapters[at - 1], chapters[at + 1]];
  return (
    <nav class="reference-neighbours" aria-label="Chapters before and after">
      {before ? <a href={`#${before.name}`}>← {before.title}</a> : <span />}
      {after && <a href={`#${after.name}`}>{after.title} →</a>}
    </nav>
  );
}
