# tries: a repository in the workspace
# needs: git
# expect: exit 0
set -e
cd /workspace
export HOME=/tmp GIT_AUTHOR_DATE='2001-01-01 00:00:00Z' GIT_COMMITTER_DATE='2001-01-01 00:00:00Z'
git -c init.defaultBranch=main init -q .
git config user.name tester
git config user.email tester@example.com
git add .
git commit -q -m first
echo more >>keep.txt
git commit -q -a -m second
git log --format='%h %s'
git status --short
git gc -q && git fsck
