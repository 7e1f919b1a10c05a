import { Page as Frame } from "../../kit/page.tsx";

export const Page = () => (
  <Frame title="Get started" purpose="From a new server to a trained model in two minutes.">
    <span />
  </Frame>
);
