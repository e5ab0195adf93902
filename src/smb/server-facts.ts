import { shares } from "../store/keys.ts";
import type { Around } from "./around.ts";
import type { ServerFacts } from "./srvsvc.ts";

const LISTED_MAX = 10_000;

/** What the list of shares tells an account: its own shares. */
export const serverFacts = ({ engine, serverName }: Around, account: string): ServerFacts => ({
  serverName,
  async shares() {
    const rows = await engine.read((tx) => shares.walk(tx, [account], { limit: LISTED_MAX }));
    return rows.map(({ key }) => key[1]);
  },
});
