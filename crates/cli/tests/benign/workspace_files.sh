# tries: everything that is done with files in a workspace
# expect: exit 0
set -e
cd /workspace
mkdir -p new/deep
cp -a dir new/copy
mv keep.txt new/kept.txt
ln new/kept.txt new/twin.txt
ln -s kept.txt new/link
echo more >>run.sh
chmod 700 new
rm -r dir
touch -d '2001-01-01 00:00:00Z' new/deep/old
find . | sort
stat -c '%a %F %n' new; stat -c '%a %F %s %n' new/kept.txt new/link new/copy/inner.txt run.sh
