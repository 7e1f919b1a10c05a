/** Navigation and the current page. */
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../lib/error_text.ts";
import { ApiError } from "../data/api.ts";
import { connection } from "../data/events.ts";
import { may } from "../data/session.ts";
import { Button } from "../kit/button.tsx";
import { Empty, ErrorBox, Page, Skeleton } from "../kit/page.tsx";
import { PAGES } from "../pages/pages.ts";
import type { PageProps, PageSpec } from "../pages/spec.ts";
import { type Params, viewOf } from "./match.ts";
import { Navigation } from "./navigation.tsx";
import { Palette } from "./palette.tsx";
import { navigate, path } from "./router.ts";
import { openPalette, Shortcuts } from "./shortcuts.tsx";

const isMenuOpen = signal(false);

export function Frame() {
  const address = path.value;
  useEffect(() => {
    isMenuOpen.value = false;
    document.querySelector("main")?.scrollTo(0, 0);
    scrollTo(0, 0);
  }, [address]);
  return (
    <div class="app">
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the page
      </button>
      <Navigation isOpen={isMenuOpen} onSearch={openPalette} />
      <main id="main" tabIndex={-1}>
        <ConnectionNote />
        <Current address={address} />
      </main>
      <Palette />
      <Shortcuts />
    </div>
  );
}

function Current({ address }: { address: string }) {
  const view = viewOf(address, PAGES, may);
  if (view.is === "missing") return <NotFound />;
  if (view.is === "forbidden") return <Forbidden title={view.spec.title} area={view.area} />;
  return <Lazy key={view.spec.path} spec={view.spec} params={view.params} />;
}

/** Loads the code of a page. A chunk that is gone means that the server has a new version. */
function Lazy({ spec, params }: { spec: PageSpec; params: Params }) {
  const [page, setPage] = useState<{ Page: ComponentType<PageProps> } | ApiError | undefined>(undefined);
  useEffect(() => {
    spec.load().then(setPage, (error: unknown) => setPage(new ApiError(0, null, errorText(error))));
  }, [spec]);
  if (page instanceof ApiError) return <ErrorBox error={page} retry={() => location.reload()} />;
  if (!page)
    return (
      <Page title={spec.title}>
        <Skeleton rows={6} />
      </Page>
    );
  const { Page: Shown } = page;
  return <Shown params={params} />;
}

const NotFound = () => (
  <Page title="No such page">
    <Empty title="Nothing is at this address" action={<Button onClick={() => navigate("/")}>Go home</Button>}>
      The link may be old, or a letter is missing.
    </Empty>
  </Page>
);

const Forbidden = ({ title, area }: { title: string; area: string }) => (
  <Page title={title}>
    <Empty title={`This key lacks the scope for ${area}`} command={`verk keys create --scope "*"`}>
      Sign in with another key to see this page.
    </Empty>
  </Page>
);

/** Visible only while the live connection is lost. It heals by itself. */
const ConnectionNote = () =>
  connection.value === "lost" ? (
    <div class="lost" role="status">
      The connection to the server is lost. What you see may be old; the page reconnects by itself.
    </div>
  ) : null;
