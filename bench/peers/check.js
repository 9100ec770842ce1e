// Holds a peer to channeld: both are asked the same, and what they answer must be the same JSON.
//
//   node check.js PORT_OF_CHANNELD PORT_OF_PEER KEY TARGETS...      from each file of targets the first 20 are asked
import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'

const [ours, theirs, key, ...files] = process.argv.slice(2)

async function ask (port, target, withKey) {
  const response = await fetch(`http://127.0.0.1:${port}${target}`, { headers: { 'X-Api-Key': withKey } })
  return { status: response.status, body: await response.json() }
}

function fail (target, a, b) {
  console.error(`different answers to ${target}:\n${JSON.stringify(a)}\n${JSON.stringify(b)}`)
  process.exit(1)
}

for (const file of files) {
  const targets = readFileSync(file, 'utf8').split('\n').slice(0, 20).filter((line) => line !== '')
  for (const target of targets) {
    const [a, b] = await Promise.all([ask(ours, target, key), ask(theirs, target, key)])
    if (a.status !== 200 || !isDeepStrictEqual(a, b)) fail(target, a, b)
  }
  const refused = await ask(theirs, targets[0], 'no-such-key')
  if (refused.status !== 401) fail(`${targets[0]} with a wrong key`, { status: 401 }, refused)
}
