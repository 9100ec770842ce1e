// Compares a peer with channeld: both get the same requests, and the responses must be the same JSON.
//
//   node check.js PORT_OF_CHANNELD PORT_OF_PEER KEY TARGETS...      the first 20 of each file of targets are requested
import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'

const [ours, theirs, key, ...files] = process.argv.slice(2)

async function request (port, target, withKey) {
  const response = await fetch(`http://127.0.0.1:${port}${target}`, { headers: { 'X-Api-Key': withKey } })
  return { status: response.status, body: await response.json() }
}

function fail (target, a, b) {
  console.error(`different responses to ${target}:\n${JSON.stringify(a)}\n${JSON.stringify(b)}`)
  process.exit(1)
}

for (const file of files) {
  const targets = readFileSync(file, 'utf8').split('\n').slice(0, 20).filter((line) => line !== '')
  for (const target of targets) {
    const [a, b] = await Promise.all([request(ours, target, key), request(theirs, target, key)])
    if (a.status !== 200 || !isDeepStrictEqual(a, b)) fail(target, a, b)
  }
  const rejected = await request(theirs, targets[0], 'no-such-key')
  if (rejected.status !== 401) fail(`${targets[0]} with a wrong key`, { status: 401 }, rejected)
}
