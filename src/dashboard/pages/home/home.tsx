import { Page as Frame } from "../../kit/page.tsx";

export const Page = () => (
  <Frame title="Home" purpose="What runs on this machine now, and what needs you.">
    <span />
  </Frame>
);
